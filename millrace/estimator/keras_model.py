"""`model_to_estimator`: an Estimator that trains a compiled Keras model.

Each graph gets a copy of the model, made from its configuration. The weights that the model has
are kept as a checkpoint, which a training without one begins with.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import millrace as tf
from millrace.estimator.estimator import Estimator
from millrace.estimator.mode_keys import ModeKeys
from millrace.keras.engine import state
from millrace.keras.engine.training import loss_value, metric_of
from millrace.training.checkpoint.warm_start import WarmStartSettings


def model_to_estimator(
    keras_model: Any = None,
    keras_model_path: str | None = None,
    custom_objects: Mapping[str, Any] | None = None,
    model_dir: Any = None,
    config: Any = None,
    checkpoint_format: str = "saver",
    use_v2_estimator: bool = False,
    metric_names_map: Mapping[str, str] | None = None,
    export_outputs: Any = None,
) -> Estimator:
    """An Estimator of a compiled Keras model.

    Args:
      keras_model: The model; functional or Sequential.
      keras_model_path: A file with a model; files of whole models are not read here.
      custom_objects: Classes of layers that are not Keras's, by name.
      model_dir: Where checkpoints and summaries go.
      config: A RunConfig.
      checkpoint_format: "saver"; object-based checkpoints are not written.
      use_v2_estimator: Not used.
      metric_names_map: Other names of metrics.
      export_outputs: Not used: the outputs are the default signature.

    Raises:
      ValueError: There is no model, or it is not compiled.
      NotImplementedError: It can not be copied: it is a subclass with a `call` of its own.
    """
    if keras_model is None and keras_model_path is None:
        raise ValueError("Either `keras_model` or `keras_model_path` needs to be provided. ")
    if keras_model_path is not None:
        raise ValueError(
            "keras_model_path: files of whole Keras models are not read here; build the model, "
            "load its weights, and give it as `keras_model`"
        )
    if checkpoint_format not in ("saver", "checkpoint", None):
        raise ValueError(f"Unsupported checkpoint_format {checkpoint_format!r}")
    if keras_model.optimizer is None:
        raise ValueError(
            "The given keras model has not been compiled yet. Please compile the model with "
            "`model.compile()` before calling `model_to_estimator()`."
        )
    keras_model.get_config()  # fails now, not in the first training
    names = dict(metric_names_map or {})

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        return _spec_of(keras_model, custom_objects, names, features, labels, mode)

    estimator = Estimator(model_fn, model_dir, config)
    if keras_model.weights:
        estimator._warm_start_settings = _weights_of(keras_model, estimator.model_dir)
    return estimator


def _weights_of(model: Any, model_dir: str) -> WarmStartSettings:
    """Writes the model's weights as a checkpoint to begin with."""
    names = [weight.op.name for weight in model.weights]
    path = os.path.join(os.fsdecode(model_dir), "keras", "keras_model.ckpt")
    tf.gfile.MakeDirs(os.path.dirname(path))
    values = model.get_weights()
    with tf.Graph().as_default(), tf.Session() as session:
        copies = [tf.Variable(value, name=name) for name, value in zip(names, values, strict=True)]
        session.run(tf.global_variables_initializer())
        named = dict(zip(names, copies, strict=True))
        tf.train.Saver(named).save(session, path, write_meta_graph=False, write_state=False)
    return WarmStartSettings(path, [f"^{re.escape(name)}:0$" for name in names])


def _spec_of(
    model: Any,
    custom_objects: Any,
    metric_names: Mapping[str, str],
    features: Any,
    labels: Any,
    mode: str,
) -> Any:
    state.set_learning_phase(mode == ModeKeys.TRAIN)
    copy = type(model).from_config(model.get_config(), custom_objects)
    inputs = _ordered(features, copy.input_names, "features", "inputs")
    # What the copy has made so far hangs on placeholders of its own.
    unused = {id(each) for each in (*copy.updates, *copy.get_losses_for(copy.inputs))}
    outputs = tf.nest.flatten(copy(inputs[0] if len(inputs) == 1 else inputs))
    predictions = dict(zip(copy.output_names, outputs, strict=True))
    if mode == ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)
    targets = _ordered(labels, copy.output_names, "labels", "outputs")
    losses = [tf.keras.losses.get(each) for each in model._per_output(model._loss)]
    weights = model._per_output(model._loss_weights, 1.0)
    total = tf.add_n(
        [
            weight * loss_value(function, _shaped(target, output), output)
            for function, weight, target, output in zip(
                losses, weights, targets, outputs, strict=True
            )
        ]
        + [loss for loss in copy.losses if id(loss) not in unused]
    )
    metrics = _metrics(model, copy.output_names, losses, targets, outputs)
    train_op = None
    if mode == ModeKeys.TRAIN:
        optimizer = model.optimizer
        if isinstance(optimizer, tf.keras.optimizers.Optimizer):
            optimizer = type(optimizer).from_config(optimizer.get_config())
        with tf.control_dependencies([each for each in copy.updates if id(each) not in unused]):
            train_op = optimizer.minimize(
                total, var_list=copy.trainable_weights, global_step=tf.train.get_global_step()
            )
    return tf.estimator.EstimatorSpec(
        mode,
        predictions=predictions,
        loss=total,
        train_op=train_op,
        eval_metric_ops={metric_names.get(k, k): v for k, v in metrics.items()},
    )


def _metrics(
    model: Any, names: Sequence[str], losses: Any, targets: Any, outputs: Any
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, loss, target, output in zip(names, losses, targets, outputs, strict=True):
        wanted = model._wanted_metrics
        wanted = wanted.get(name, []) if isinstance(wanted, dict) else wanted
        for each in wanted if isinstance(wanted, list | tuple) else [wanted]:
            if isinstance(each, tf.keras.metrics.Metric):
                each = type(each).from_config(each.get_config())  # its variables: of this graph
            metric = metric_of(each, output, loss)
            update = metric.update_state(_shaped(target, output), output)
            label = metric.name if len(outputs) == 1 else f"{name}_{metric.name}"
            found[label] = (metric.result(), update)
    return found


def _shaped(target: Any, output: Any) -> Any:
    """Labels without the last dimension of the output get one."""
    ranks = target.shape.ndims, output.shape.ndims
    if None not in ranks and ranks[0] == ranks[1] - 1:
        return tf.expand_dims(target, -1)
    return target


def _ordered(given: Any, names: Sequence[str], what: str, of_model: str) -> list[Any]:
    """Tensors in the order of the model's inputs or outputs."""
    if not isinstance(given, dict):
        found = list(given) if isinstance(given, list | tuple) else [given]
        if len(found) != len(names):
            raise ValueError(
                f"The model has {len(names)} {of_model} ({list(names)}), but {what} has "
                f"{len(found)} tensors."
            )
        return found
    if set(given) != set(names):
        raise KeyError(
            f"The dictionary passed into {what} does not have the expected {of_model} keys defined "
            f"in the keras model.\n\tExpected keys: {set(names)}\n\t{what} keys: {set(given)}\n\t"
            f"Difference: {set(given) ^ set(names)}"
        )
    return [given[name] for name in names]
