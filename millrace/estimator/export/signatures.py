"""Signatures and folders of exported models."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from typing import Any

import millrace as tf
from millrace.estimator.export.export_output import (
    EvalOutput,
    ExportOutput,
    TrainOutput,
    checked_export_outputs,
)
from millrace.estimator.export.receivers import SINGLE_RECEIVER_DEFAULT_NAME
from millrace.estimator.mode_keys import ModeKeys
from millrace.saved_model import signature_constants as keys
from millrace.saved_model import tag_constants
from millrace.saved_model.tensor_info import get_tensor_from_tensor_info

#: The tags of a graph by what it is exported for.
EXPORT_TAGS = {
    ModeKeys.PREDICT: [tag_constants.SERVING],
    ModeKeys.TRAIN: [tag_constants.TRAINING],
    ModeKeys.EVAL: [tag_constants.EVAL],
}

#: How the log names the methods of signatures.
_METHODS = {
    keys.CLASSIFY_METHOD_NAME: "Classify",
    keys.REGRESS_METHOD_NAME: "Regress",
    keys.PREDICT_METHOD_NAME: "Predict",
    keys.SUPERVISED_TRAIN_METHOD_NAME: "Train",
    keys.SUPERVISED_EVAL_METHOD_NAME: "Eval",
}
_FOLDER_ATTEMPTS = 10


def export_outputs_of(spec: Any) -> dict[str, ExportOutput]:
    """What a model gives, by the names of signatures, for the mode it was built for."""
    if spec.mode == ModeKeys.PREDICT:
        return checked_export_outputs(spec.export_outputs, spec.predictions)
    kind, key = (
        (TrainOutput, keys.DEFAULT_TRAIN_SIGNATURE_DEF_KEY)
        if spec.mode == ModeKeys.TRAIN
        else (EvalOutput, keys.DEFAULT_EVAL_SIGNATURE_DEF_KEY)
    )
    return {key: kind(spec.loss, spec.predictions, spec.eval_metric_ops)}


def build_all_signature_defs(
    receiver_tensors: Any,
    export_outputs: Mapping[str, ExportOutput],
    receiver_tensors_alternatives: Mapping[str, Any] | None = None,
    serving_only: bool = True,
) -> dict[str, Any]:
    """The SignatureDefs of a model, by name.

    An output that cannot be computed from what is fed has no signature; the log says why.

    Args:
      receiver_tensors: What is fed.
      export_outputs: What the model gives, by the names of signatures.
      receiver_tensors_alternatives: What may be fed instead, by name.
      serving_only: Whether to leave out what a server cannot use.

    Raises:
      ValueError: The outputs are no dict.
    """
    if not isinstance(export_outputs, dict):
        raise ValueError(
            f"`export_outputs` must be a dict. Received {export_outputs} with type "
            f"{type(export_outputs).__name__}."
        )
    found: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    for prefix, fed in {"": receiver_tensors, **(receiver_tensors_alternatives or {})}.items():
        if not isinstance(fed, dict):
            fed = {SINGLE_RECEIVER_DEFAULT_NAME: fed}
        first = "" if fed is receiver_tensors else f"{prefix or 'None'}:"
        for key, output in export_outputs.items():
            name = f"{first}{key or 'None'}"
            try:
                signature = output.as_signature_def(fed)
                _check_servable(fed.values(), signature.outputs)
                found[name] = signature
            except ValueError as error:
                left_out[name] = str(error)
    _report(found, left_out)
    if not serving_only:
        return found
    return {k: v for k, v in found.items() if tf.saved_model.is_valid_signature(v)}


def _check_servable(fed: Iterable[Any], outputs: Mapping[str, Any]) -> None:
    """Checks that outputs depend on no placeholder that is not fed."""
    inputs = [part for each in fed for part in _parts(each)]
    graph = inputs[0].graph if inputs else tf.get_default_graph()
    given = {tensor.name for tensor in inputs}
    wanted = [
        part
        for info in outputs.values()
        for part in _parts(get_tensor_from_tensor_info(info, graph))
    ]
    waiting, seen = [tensor.op for tensor in wanted if tensor.name not in given], set()
    while waiting:
        op = waiting.pop()
        if op.name in seen:
            continue
        seen.add(op.name)
        if op.type == "Placeholder" and op.outputs[0].name not in given:
            raise ValueError(
                f"The signature's input tensors {sorted(given)} are insufficient to compute its "
                f"output keys {list(outputs)} (respectively, tensors "
                f"{[tensor.name for tensor in wanted]}) because of the dependency on `{op.name}` "
                "which is not given as a signature input"
            )
        waiting.extend(tensor.op for tensor in op.inputs if tensor.name not in given)
        waiting.extend(op.control_inputs)


def _parts(tensor: Any) -> list[Any]:
    if isinstance(tensor, tf.SparseTensor):
        return [tensor.indices, tensor.values, tensor.dense_shape]
    return [tensor]


def _report(found: Mapping[str, Any], left_out: Mapping[str, str]) -> None:
    for method, word in _METHODS.items():
        names = [name for name, signature in found.items() if signature.method_name == method]
        tf.logging.info("Signatures INCLUDED in export for %s: %s", word, names or "None")
    if left_out:
        tf.logging.info(
            "Signatures EXCLUDED from export because they cannot be be served via TensorFlow "
            "Serving APIs:"
        )
        for name, reason in left_out.items():
            tf.logging.info("'%s' : %s", name, reason)
    if not found:
        tf.logging.warning("Export includes no signatures!")
    elif keys.DEFAULT_SERVING_SIGNATURE_DEF_KEY not in found:
        tf.logging.warning("Export includes no default signature!")


def get_timestamped_export_dir(export_dir_base: Any) -> bytes:
    """A folder below `export_dir_base` that is named by the time, in seconds, and is not there.

    TensorFlow waits a second when there is one of this second; here the next second's is taken.

    Raises:
      RuntimeError: There are too many.
    """
    base, second = os.fsdecode(export_dir_base), int(time.time())
    for attempt in range(1, _FOLDER_ATTEMPTS + 1):
        folder = os.path.join(base, str(second))
        if not tf.gfile.Exists(folder):
            return folder.encode()
        second += 1
        tf.logging.warning(
            "Directory %s already exists; retrying (attempt %d/%d)",
            folder,
            attempt,
            _FOLDER_ATTEMPTS,
        )
    raise RuntimeError(
        f"Failed to obtain a unique export directory name after {_FOLDER_ATTEMPTS} attempts. "
        f"Look into {base}: are its folders dated in the future?"
    )


def get_temp_export_dir(timestamped_export_dir: Any) -> bytes:
    """Where a model is written before it gets its name."""
    base, name = os.path.split(os.fsdecode(timestamped_export_dir))
    return os.path.join(base, f"temp-{name}").encode()
