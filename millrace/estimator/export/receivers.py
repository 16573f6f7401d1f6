"""What a served model takes: the tensors that are fed, and the features that come of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import millrace as tf
from millrace.estimator.input_fn import features_labels_and_hooks

#: The names of single tensors that are given without a dict.
SINGLE_FEATURE_DEFAULT_NAME = "feature"
SINGLE_LABEL_DEFAULT_NAME = "label"
SINGLE_RECEIVER_DEFAULT_NAME = "input"


def _checked(tensors: Any, what: str, default: str, allow_int_keys: bool = False) -> Any:
    """The tensors as a dict whose keys and values are good."""
    if tensors is None:
        raise ValueError(f"{what}s must be defined.")
    if not isinstance(tensors, dict):
        tensors = {default: tensors}
    for name, tensor in tensors.items():
        if not isinstance(name, str):
            if not allow_int_keys:
                raise ValueError(f"{what} keys must be strings: {name}.")
            if not isinstance(name, int):
                raise ValueError(f"{what} keys must be strings or ints: {name}.")
        _check_tensor(tensor, name, what)
    return tensors


def _check_tensor(tensor: Any, name: Any, what: str = "feature") -> None:
    if not isinstance(tensor, tf.Tensor | tf.SparseTensor):
        named = f" {name}" if name else ""
        raise ValueError(f"{what}{named} must be a Tensor, SparseTensor, or RaggedTensor.")


def _checked_features(features: Any) -> Any:
    return _checked(features, "feature", SINGLE_FEATURE_DEFAULT_NAME, allow_int_keys=True)


def _checked_receiver(tensors: Any, what: str = "receiver_tensor") -> Any:
    return _checked(tensors, what, SINGLE_RECEIVER_DEFAULT_NAME)


class _ServingInputReceiver(NamedTuple):
    features: Any
    receiver_tensors: Any
    receiver_tensors_alternatives: Any


class ServingInputReceiver(_ServingInputReceiver):
    """The features of a model, and the tensors that a server feeds.

    Args:
      features: A tensor or a dict of them, for the model_fn, which gets a dict.
      receiver_tensors: A tensor or a dict of them, that are fed.
      receiver_tensors_alternatives: Dicts of other tensors that may be fed instead, by name; each
        gives a signature of its own.

    Raises:
      ValueError: A key or value is none that it may be.
    """

    __slots__ = ()

    def __new__(
        cls, features: Any, receiver_tensors: Any, receiver_tensors_alternatives: Any = None
    ) -> ServingInputReceiver:
        features = _checked_features(features)
        receiver_tensors = _checked_receiver(receiver_tensors)
        if receiver_tensors_alternatives is not None:
            if not isinstance(receiver_tensors_alternatives, dict):
                raise ValueError(
                    "receiver_tensors_alternatives must be a dict: "
                    f"{receiver_tensors_alternatives}."
                )
            receiver_tensors_alternatives = {
                name: _checked_receiver(tensors, "receiver_tensors_alternative")
                for name, tensors in receiver_tensors_alternatives.items()
            }
        return super().__new__(cls, features, receiver_tensors, receiver_tensors_alternatives)


class TensorServingInputReceiver(_ServingInputReceiver):
    """Like ServingInputReceiver, for a model_fn whose features are one tensor.

    Raises:
      ValueError: The features are no tensor.
    """

    __slots__ = ()

    def __new__(
        cls, features: Any, receiver_tensors: Any, receiver_tensors_alternatives: Any = None
    ) -> TensorServingInputReceiver:
        if features is None:
            raise ValueError("features must be defined.")
        _check_tensor(features, None)
        checked = ServingInputReceiver(features, receiver_tensors, receiver_tensors_alternatives)
        return super().__new__(
            cls,
            checked.features[SINGLE_FEATURE_DEFAULT_NAME],
            checked.receiver_tensors,
            checked.receiver_tensors_alternatives,
        )


class _SupervisedInputReceiver(NamedTuple):
    features: Any
    labels: Any
    receiver_tensors: Any


class SupervisedInputReceiver(_SupervisedInputReceiver):
    """Features, labels and fed tensors of a model that is exported for training or evaluation.

    Raises:
      ValueError: A key or value is none that it may be.
    """

    __slots__ = ()

    def __new__(cls, features: Any, labels: Any, receiver_tensors: Any) -> SupervisedInputReceiver:
        _checked_features(features)
        _checked(labels, "label", SINGLE_LABEL_DEFAULT_NAME, allow_int_keys=True)
        return super().__new__(cls, features, labels, _checked_receiver(receiver_tensors))


def build_parsing_serving_input_receiver_fn(
    feature_spec: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """A function that takes serialized Examples and parses them.

    Args:
      feature_spec: What `tf.parse_example` takes.
      default_batch_size: How many Examples are fed; None for any number.
    """

    def serving_input_receiver_fn() -> ServingInputReceiver:
        examples = tf.placeholder(tf.string, [default_batch_size], name="input_example_tensor")
        features = tf.parse_example(examples, feature_spec)
        return ServingInputReceiver(features, {"examples": examples})

    return serving_input_receiver_fn


def _placeholder_like(tensor: Any, default_batch_size: int | None) -> Any:
    shape = tf.TensorShape([default_batch_size]).concatenate(tensor.get_shape()[1:])
    name = getattr(getattr(tensor, "op", None), "name", None)
    return tf.placeholder(tensor.dtype, shape, name=name)


def _placeholders_like(tensors: Any, default_batch_size: int | None) -> Any:
    return {name: _placeholder_like(each, default_batch_size) for name, each in tensors.items()}


def build_raw_serving_input_receiver_fn(
    features: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """A function that takes the features themselves.

    Args:
      features: Tensors by name; placeholders like them are fed.
      default_batch_size: The first dimension of each; None for any.
    """

    def serving_input_receiver_fn() -> ServingInputReceiver:
        placeholders = _placeholders_like(features, default_batch_size)
        return ServingInputReceiver(placeholders, placeholders)

    return serving_input_receiver_fn


def build_raw_supervised_input_receiver_fn(
    features: Any, labels: Any, default_batch_size: int | None = None
) -> Callable[[], SupervisedInputReceiver]:
    """A function that takes features and labels themselves.

    Args:
      features: A tensor, or tensors by name.
      labels: The same.
      default_batch_size: The first dimension of each; None for any.

    Raises:
      ValueError: A feature and a label have the same name.
    """
    names = [
        set(given) if isinstance(given, dict) else {single}
        for given, single in (
            (features, SINGLE_RECEIVER_DEFAULT_NAME),
            (labels, SINGLE_LABEL_DEFAULT_NAME),
        )
    ]
    if names[0] & names[1]:
        raise ValueError(
            "Features and labels must have distinct keys. Found overlapping keys: "
            f"{names[0] & names[1]}"
        )

    def supervised_input_receiver_fn() -> SupervisedInputReceiver:
        made, fed = [], {}
        for given, single in (
            (features, SINGLE_RECEIVER_DEFAULT_NAME),
            (labels, SINGLE_LABEL_DEFAULT_NAME),
        ):
            if isinstance(given, dict):
                made.append(_placeholders_like(given, default_batch_size))
                fed.update(made[-1])
            else:
                made.append(_placeholder_like(given, default_batch_size))
                fed[single] = made[-1]
        return SupervisedInputReceiver(made[0], made[1], fed)

    return supervised_input_receiver_fn


def build_supervised_input_receiver_fn_from_input_fn(
    input_fn: Callable[..., Any], **input_fn_args: Any
) -> Callable[[], SupervisedInputReceiver]:
    """A function that takes what an input function gives."""
    with tf.Graph().as_default():
        features, labels, _ = features_labels_and_hooks(input_fn(**input_fn_args))
    return build_raw_supervised_input_receiver_fn(features, labels)
