"""Writing an Estimator's model as a SavedModel: a graph for each mode, the variables once."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import millrace as tf
from millrace.estimator.export import signatures
from millrace.estimator.mode_keys import ModeKeys
from millrace.saved_model import constants


def export(
    estimator: Any,
    export_dir_base: Any,
    input_receiver_fn_map: Mapping[str, Callable[[], Any]],
    checkpoint_path: str,
    assets_extra: Mapping[str, str] | None,
    as_text: bool,
    strip_default_attrs: bool,
) -> bytes:
    """Writes the model into a new folder below `export_dir_base`, which appears at one stroke.

    Returns:
      The folder.

    Raises:
      ValueError: There is no mode to export for, or the checkpoint lacks variables.
    """
    # The graph that has most variables comes first: it is the one that saves them.
    modes = [
        mode
        for mode in (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT)
        if input_receiver_fn_map.get(mode)
    ]
    if not modes:
        raise ValueError(f"No valid modes for exporting found. Got {input_receiver_fn_map.keys()}.")
    folder = signatures.get_timestamped_export_dir(export_dir_base)
    unfinished = signatures.get_temp_export_dir(folder)
    builder = tf.saved_model.Builder(unfinished)
    for mode in modes:
        _add_graph(
            builder,
            estimator,
            mode,
            input_receiver_fn_map[mode],
            checkpoint_path,
            save_variables=mode == modes[0],
            strip_default_attrs=strip_default_attrs,
        )
    builder.save(as_text)
    for place, source in (assets_extra or {}).items():
        target = os.path.join(os.fsdecode(unfinished), "assets.extra", os.fsdecode(place))
        tf.gfile.MakeDirs(os.path.dirname(target))
        tf.gfile.Copy(source, target)
    tf.gfile.Rename(unfinished, folder)
    return folder


def _add_graph(
    builder: Any,
    estimator: Any,
    mode: str,
    input_receiver_fn: Callable[[], Any],
    checkpoint_path: str,
    save_variables: bool,
    strip_default_attrs: bool,
) -> None:
    with tf.Graph().as_default() as graph:
        estimator._create_and_assert_global_step(graph)
        tf.set_random_seed(estimator.config.tf_random_seed)
        receiver = input_receiver_fn()
        labels = getattr(receiver, "labels", None)
        spec = estimator._call_model_fn(receiver.features, labels, mode, estimator.config)
        signature_def_map = signatures.build_all_signature_defs(
            receiver.receiver_tensors,
            signatures.export_outputs_of(spec),
            getattr(receiver, "receiver_tensors_alternatives", None),
            serving_only=mode == ModeKeys.PREDICT,
        )
        with tf.Session(config=estimator._session_config) as session:
            local_init_op = spec.scaffold.local_init_op
            if local_init_op is None:
                local_init_op = tf.train.Scaffold.default_local_init_op()
            saver = spec.scaffold.saver or tf.train.Saver(sharded=True)
            if isinstance(saver, tf.train.Checkpoint):
                saver = saver.as_saver()
            _restore(saver, session, checkpoint_path, mode)
            if spec.train_op is not None:
                tf.add_to_collection(constants.TRAIN_OP_KEY, spec.train_op)
            arguments: dict[str, Any] = {
                "tags": signatures.EXPORT_TAGS[mode],
                "signature_def_map": signature_def_map,
                "assets_collection": tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS),
                "main_op": local_init_op,
                "saver": saver,
                "strip_default_attrs": strip_default_attrs,
            }
            if save_variables:
                builder.add_meta_graph_and_variables(session, **arguments)
            else:
                builder.add_meta_graph(**arguments)


def _restore(saver: Any, session: Any, checkpoint_path: str, mode: str) -> None:
    try:
        saver.restore(session, checkpoint_path)
    except tf.errors.NotFoundError as error:
        raise ValueError(
            "Could not load all requested variables from checkpoint. Please make sure your "
            "model_fn does not expect variables that were not saved in the checkpoint.\n\n"
            f"Encountered error with mode `{mode}` while restoring checkpoint from: "
            f"`{checkpoint_path}`. Full Traceback:\n\n{error}"
        ) from error


def export_all_saved_models(
    estimator: Any,
    export_dir_base: Any,
    input_receiver_fn_map: Mapping[str, Callable[[], Any]],
    assets_extra: Mapping[str, str] | None = None,
    as_text: bool = False,
    checkpoint_path: str | None = None,
) -> bytes:
    """The old form of `Estimator.experimental_export_all_saved_models`."""
    folder: bytes = estimator.experimental_export_all_saved_models(
        export_dir_base, input_receiver_fn_map, assets_extra, as_text, checkpoint_path
    )
    return folder


def export_saved_model_for_mode(
    estimator: Any,
    export_dir_base: Any,
    input_receiver_fn: Callable[[], Any],
    assets_extra: Mapping[str, str] | None = None,
    as_text: bool = False,
    checkpoint_path: str | None = None,
    mode: str = ModeKeys.PREDICT,
) -> bytes:
    """The old form of `Estimator.export_saved_model` with a mode."""
    folder: bytes = estimator.export_saved_model(
        export_dir_base, input_receiver_fn, assets_extra, as_text, checkpoint_path, mode
    )
    return folder
