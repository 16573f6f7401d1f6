"""What a model gives to those who serve it: the tensors of a signature, by kind.

Each class checks its tensors when it is made and becomes a SignatureDef once the tensors that are
fed are known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import millrace as tf
from millrace.saved_model import signature_constants, signatures


class ExportOutput:
    """A base class: one signature of an exported model."""

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> Any:
        """The SignatureDef for these tensors that are fed, by name."""
        raise NotImplementedError

    def _checked_key(self, key: Any, kind: str) -> str:
        if isinstance(key, tuple):
            key = "/".join(key)
        if not isinstance(key, str):
            raise ValueError(f"{kind} output key must be a string; got {key}.")
        return key

    def _checked_outputs(self, outputs: Any, default_name: str, kind: str = "") -> dict[str, Any]:
        if not isinstance(outputs, dict):
            outputs = {default_name: outputs}
        kind = kind or default_name
        checked = {}
        for key, value in outputs.items():
            key = self._checked_key(key, kind)
            if not isinstance(value, tf.Tensor):
                raise ValueError(f"{kind} output value must be a Tensor; got {value}.")
            checked[key] = value
        return checked


def _the_examples(kind: str, receiver_tensors: Mapping[str, Any]) -> Any:
    """The one tensor of serialized Examples that classification and regression take."""
    found = list(receiver_tensors.values())
    if len(found) != 1 or found[0].dtype != tf.string:
        raise ValueError(
            f"{kind} signatures can only accept a single tensor input of type tf.string. Please "
            "check to make sure that you have structured the serving_input_receiver_fn so that it "
            "creates a single string placeholder. If your model function expects multiple inputs, "
            "then use `tf.io.parse_example()` to parse the string into multiple tensors.\n "
            f"Received: {receiver_tensors}"
        )
    return found[0]


class ClassificationOutput(ExportOutput):
    """Classes, scores, or both, of serialized Examples.

    Args:
      scores: A float tensor.
      classes: A string tensor.

    Raises:
      ValueError: One has another type, or both are missing.
    """

    def __init__(self, scores: Any = None, classes: Any = None) -> None:
        if scores is not None and not (isinstance(scores, tf.Tensor) and scores.dtype.is_floating):
            raise ValueError(f"Classification scores must be a float32 Tensor; got {scores}")
        if classes is not None and not (
            isinstance(classes, tf.Tensor) and classes.dtype == tf.string
        ):
            raise ValueError(f"Classification classes must be a string Tensor; got {classes}")
        if scores is None and classes is None:
            raise ValueError(
                "Cannot create a ClassificationOutput with empty arguments. At least one of "
                "`scores` and `classes` must be defined."
            )
        self._scores = scores
        self._classes = classes

    @property
    def scores(self) -> Any:
        """The scores, or None."""
        return self._scores

    @property
    def classes(self) -> Any:
        """The classes, or None."""
        return self._classes

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> Any:
        """A signature that classifies.

        Raises:
          ValueError: What is fed is not one tensor of strings.
        """
        examples = _the_examples("Classification", receiver_tensors)
        return signatures.classification_signature_def(examples, self.classes, self.scores)


class RegressionOutput(ExportOutput):
    """A number for each serialized Example.

    Args:
      value: A float tensor.

    Raises:
      ValueError: It is none.
    """

    def __init__(self, value: Any) -> None:
        if not (isinstance(value, tf.Tensor) and value.dtype.is_floating):
            raise ValueError(f"Regression output value must be a float32 Tensor; got {value}")
        self._value = value

    @property
    def value(self) -> Any:
        """The numbers."""
        return self._value

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> Any:
        """A signature that regresses.

        Raises:
          ValueError: What is fed is not one tensor of strings.
        """
        examples = _the_examples("Regression", receiver_tensors)
        return signatures.regression_signature_def(examples, self.value)


class PredictOutput(ExportOutput):
    """Any tensors by name, for any tensors that are fed.

    Args:
      outputs: A tensor, or a dict of them; keys may be tuples of strings.

    Raises:
      ValueError: A value is no tensor, or a key no string.
    """

    _SINGLE_OUTPUT_DEFAULT_NAME = "output"

    def __init__(self, outputs: Any) -> None:
        self._outputs = self._checked_outputs(
            outputs, self._SINGLE_OUTPUT_DEFAULT_NAME, "Prediction"
        )

    @property
    def outputs(self) -> dict[str, Any]:
        """The tensors by name."""
        return self._outputs

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> Any:
        """A signature that predicts."""
        return signatures.predict_signature_def(receiver_tensors, self.outputs)


class _SupervisedOutput(ExportOutput):
    """Loss, predictions and metrics of a model that is exported for training or evaluation."""

    LOSS_NAME = "loss"
    PREDICTIONS_NAME = "predictions"
    METRICS_NAME = "metrics"
    METRIC_VALUE_SUFFIX = "value"
    METRIC_UPDATE_SUFFIX = "update_op"
    #: The signature's method.
    _method_name = ""

    def __init__(self, loss: Any = None, predictions: Any = None, metrics: Any = None) -> None:
        self._loss = self._prefixed(loss, self.LOSS_NAME)
        self._predictions = self._prefixed(predictions, self.PREDICTIONS_NAME)
        self._metrics = None if metrics is None else self._checked_metrics(metrics)

    @property
    def loss(self) -> dict[str, Any] | None:
        """The losses by name, or None."""
        return self._loss

    @property
    def predictions(self) -> dict[str, Any] | None:
        """The predictions by name, or None."""
        return self._predictions

    @property
    def metrics(self) -> dict[str, Any] | None:
        """Values and updates of the metrics by name, or None."""
        return self._metrics

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> Any:
        """A signature with everything that the model gives."""
        outputs = {**(self.loss or {}), **(self.predictions or {}), **(self.metrics or {})}
        named = signatures.predict_signature_def(receiver_tensors, outputs)
        named.method_name = self._method_name
        return named

    def _prefixed(self, outputs: Any, name: str) -> dict[str, Any] | None:
        if outputs is None:
            return None
        checked = self._checked_outputs(outputs, name)
        return {_with_prefix(key, name): value for key, value in checked.items()}

    def _checked_metrics(self, metrics: Any) -> dict[str, Any]:
        if not isinstance(metrics, dict):
            metrics = {self.METRICS_NAME: metrics}
        outputs: dict[str, Any] = {}
        for key, value in metrics.items():
            result, update = (
                value if isinstance(value, tuple) else (value.result(), value.updates[0])
            )
            key = _with_prefix(self._checked_key(key, self.METRICS_NAME), self.METRICS_NAME)
            if not isinstance(result, tf.Tensor):
                raise ValueError(f"{key} output value must be a Tensor; got {result}.")
            if not (tf.is_tensor(update) or isinstance(update, tf.Operation)):
                raise ValueError(f"{key} update_op must be a Tensor or Operation; got {update}.")
            if not isinstance(update, tf.Tensor):
                with tf.control_dependencies([update]):
                    update = tf.constant([], name="metric_op_wrapper")
            outputs[f"{key}/{self.METRIC_VALUE_SUFFIX}"] = result
            outputs[f"{key}/{self.METRIC_UPDATE_SUFFIX}"] = update
        return outputs


def _with_prefix(key: str, prefix: str) -> str:
    return key if key.startswith(prefix) else f"{prefix}/{key}"


class TrainOutput(_SupervisedOutput):
    """What a model exported for training gives."""

    _method_name = signature_constants.SUPERVISED_TRAIN_METHOD_NAME


class EvalOutput(_SupervisedOutput):
    """What a model exported for evaluation gives."""

    _method_name = signature_constants.SUPERVISED_EVAL_METHOD_NAME


def checked_export_outputs(export_outputs: Any, predictions: Any) -> dict[str, ExportOutput]:
    """The outputs of a model for serving, one of them the default.

    Args:
      export_outputs: What the model_fn gave; None for its predictions.
      predictions: The predictions.

    Raises:
      TypeError: They are no dict of ExportOutputs.
      ValueError: There are several, and none is the default.
    """
    default = signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
    if export_outputs is None:
        export_outputs = {default: PredictOutput(predictions)}
    if not isinstance(export_outputs, dict):
        raise TypeError(f"`export_outputs` must be dict, received: {export_outputs}.")
    for value in export_outputs.values():
        if not isinstance(value, ExportOutput):
            raise TypeError(
                "Values in `export_outputs` must be ExportOutput objects, received: "
                f"{export_outputs}."
            )
    if len(export_outputs) == 1:
        (only,) = export_outputs.values()
        export_outputs.setdefault(default, only)
    elif export_outputs and default not in export_outputs:
        raise ValueError(
            "Multiple `export_outputs` were provided, but none of them are specified as the "
            "default. Use`tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY` to specify a default. "
            f"Found {sorted(export_outputs)}; give one of them the key {default!r}."
        )
    return export_outputs
