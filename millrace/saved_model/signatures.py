"""Signatures: which tensors a model takes and gives, by names that a server knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millrace.core import dtypes
from millrace.core.config import SignatureDef, TensorInfo
from millrace.graph.tensor import Tensor
from millrace.saved_model import signature_constants as names
from millrace.saved_model.tensor_info import build_tensor_info, build_tensor_info_from_op

_STRING = dtypes.string.as_datatype_enum
_FLOAT = dtypes.float32.as_datatype_enum


def build_signature_def(
    inputs: Mapping[str, TensorInfo] | None = None,
    outputs: Mapping[str, TensorInfo] | None = None,
    method_name: str | None = None,
) -> SignatureDef:
    """A SignatureDef of TensorInfos by name."""
    signature = SignatureDef()
    for target, given in ((signature.inputs, inputs), (signature.outputs, outputs)):
        for name in given or ():
            target[name].CopyFrom((given or {})[name])
    if method_name is not None:
        signature.method_name = method_name
    return signature


def _infos(tensors: Mapping[str, Any]) -> dict[str, TensorInfo]:
    return {name: build_tensor_info(tensor) for name, tensor in tensors.items()}


def _examples(kind: str, examples: Any) -> TensorInfo:
    if examples is None:
        raise ValueError(f"{kind} `examples` cannot be None.")
    if not isinstance(examples, Tensor):
        raise ValueError(
            f"Expected {kind.lower()} `examples` to be of type Tensor. Found `examples` of type "
            f"{type(examples)}."
        )
    info = build_tensor_info(examples)
    _check_type(kind, "input tensors", info, _STRING)
    return info


def _check_type(kind: str, what: str, info: TensorInfo, wanted: int) -> None:
    if info.dtype != wanted:
        raise ValueError(
            f"{kind} {what} must be of type {dtypes.as_dtype(wanted).name}. Found tensors of type "
            f"{dtypes.as_dtype(info.dtype).name}."
        )


def regression_signature_def(examples: Any, predictions: Any) -> SignatureDef:
    """Takes serialized Examples, gives numbers.

    Raises:
      ValueError: One is missing or has another type.
    """
    info = _examples("Regression", examples)
    if predictions is None:
        raise ValueError("Regression `predictions` cannot be None.")
    output = build_tensor_info(predictions)
    _check_type("Regression", "output tensors", output, _FLOAT)
    return build_signature_def(
        {names.REGRESS_INPUTS: info}, {names.REGRESS_OUTPUTS: output}, names.REGRESS_METHOD_NAME
    )


def classification_signature_def(examples: Any, classes: Any, scores: Any) -> SignatureDef:
    """Takes serialized Examples, gives classes (strings), scores, or both.

    Raises:
      ValueError: One is missing or has another type.
    """
    info = _examples("Classification", examples)
    if classes is None and scores is None:
        raise ValueError("Classification `classes` and `scores` cannot both be None.")
    outputs = {}
    for key, tensor, wanted in (
        (names.CLASSIFY_OUTPUT_CLASSES, classes, _STRING),
        (names.CLASSIFY_OUTPUT_SCORES, scores, _FLOAT),
    ):
        if tensor is not None:
            outputs[key] = build_tensor_info(tensor)
            _check_type("Classification", key, outputs[key], wanted)
    return build_signature_def({names.CLASSIFY_INPUTS: info}, outputs, names.CLASSIFY_METHOD_NAME)


def predict_signature_def(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> SignatureDef:
    """Takes any tensors and gives any.

    Raises:
      ValueError: There are none.
    """
    for what, tensors in (("inputs", inputs), ("outputs", outputs)):
        if not tensors:
            raise ValueError(f"Prediction `{what}` cannot be None or empty.")
    return build_signature_def(_infos(inputs), _infos(outputs), names.PREDICT_METHOD_NAME)


def op_signature_def(op: Any, key: str) -> SignatureDef:
    """A signature that stands for an operation."""
    return build_signature_def(outputs={key: build_tensor_info_from_op(op)})


def is_valid_signature(signature_def: SignatureDef | None) -> bool:
    """Whether a server could use it to classify, to regress or to predict."""
    if signature_def is None:
        return False
    method, inputs, outputs = (
        signature_def.method_name,
        signature_def.inputs,
        signature_def.outputs,
    )
    if not inputs or not outputs:
        return False
    if method == names.PREDICT_METHOD_NAME:
        return True
    if set(inputs) != {names.CLASSIFY_INPUTS} or inputs[names.CLASSIFY_INPUTS].dtype != _STRING:
        return False
    allowed = {
        names.REGRESS_METHOD_NAME: {names.REGRESS_OUTPUTS: _FLOAT},
        names.CLASSIFY_METHOD_NAME: {
            names.CLASSIFY_OUTPUT_CLASSES: _STRING,
            names.CLASSIFY_OUTPUT_SCORES: _FLOAT,
        },
    }.get(method, {})
    return all(key in allowed and info.dtype == allowed[key] for key, info in outputs.items())
