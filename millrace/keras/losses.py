"""`tf.keras.losses`: functions of (y_true, y_pred), and classes that weigh and reduce them."""

from __future__ import annotations

import inspect
from typing import Any

import millrace as tf
from millrace.keras import serialization
from millrace.keras.engine import state


class Reduction:
    """How the losses of a batch become one."""

    AUTO = "auto"
    NONE = "none"
    SUM = "sum"
    SUM_OVER_BATCH_SIZE = "sum_over_batch_size"

    @classmethod
    def all(cls) -> tuple[str, ...]:
        """All of them."""
        return (cls.AUTO, cls.NONE, cls.SUM, cls.SUM_OVER_BATCH_SIZE)

    @classmethod
    def validate(cls, key: str) -> None:
        """Checks a key.

        Raises:
          ValueError: It is none of these.
        """
        if key not in cls.all():
            raise ValueError(f"Invalid Reduction Key {key}.")


def _pair(y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    y_pred = tf.convert_to_tensor(y_pred)
    y_true = tf.convert_to_tensor(y_true)
    return tf.cast(y_true, y_pred.dtype), y_pred


def mean_squared_error(y_true: Any, y_pred: Any) -> Any:
    """The mean of squared differences over the last axis."""
    y_true, y_pred = _pair(y_true, y_pred)
    return tf.reduce_mean(tf.squared_difference(y_pred, y_true), axis=-1)


def mean_absolute_error(y_true: Any, y_pred: Any) -> Any:
    """The mean of absolute differences over the last axis."""
    y_true, y_pred = _pair(y_true, y_pred)
    return tf.reduce_mean(tf.abs(y_pred - y_true), axis=-1)


def mean_absolute_percentage_error(y_true: Any, y_pred: Any) -> Any:
    """The mean of absolute differences in per cent of the truth."""
    y_true, y_pred = _pair(y_true, y_pred)
    parts = tf.abs((y_true - y_pred) / tf.maximum(tf.abs(y_true), state.epsilon()))
    return 100.0 * tf.reduce_mean(parts, axis=-1)


def mean_squared_logarithmic_error(y_true: Any, y_pred: Any) -> Any:
    """The mean of squared differences of ``log(1 + y)``."""
    y_true, y_pred = _pair(y_true, y_pred)
    first = tf.log(tf.maximum(y_pred, state.epsilon()) + 1.0)
    second = tf.log(tf.maximum(y_true, state.epsilon()) + 1.0)
    return tf.reduce_mean(tf.squared_difference(first, second), axis=-1)


def _signs(y_true: Any) -> Any:
    """Labels of 0 and 1 as −1 and 1."""
    binary = tf.reduce_all(tf.logical_or(tf.equal(y_true, 0), tf.equal(y_true, 1)))
    return tf.cond(binary, lambda: 2.0 * y_true - 1.0, lambda: tf.identity(y_true))


def hinge(y_true: Any, y_pred: Any) -> Any:
    """``max(1 − y·p, 0)``."""
    y_true, y_pred = _pair(y_true, y_pred)
    return tf.reduce_mean(tf.maximum(1.0 - _signs(y_true) * y_pred, 0.0), axis=-1)


def squared_hinge(y_true: Any, y_pred: Any) -> Any:
    """``max(1 − y·p, 0)²``."""
    y_true, y_pred = _pair(y_true, y_pred)
    return tf.reduce_mean(tf.square(tf.maximum(1.0 - _signs(y_true) * y_pred, 0.0)), axis=-1)


def categorical_hinge(y_true: Any, y_pred: Any) -> Any:
    """The best wrong class against the right one."""
    y_true, y_pred = _pair(y_true, y_pred)
    right = tf.reduce_sum(y_true * y_pred, axis=-1)
    wrong = tf.reduce_max((1.0 - y_true) * y_pred, axis=-1)
    return tf.maximum(0.0, wrong - right + 1.0)


def huber_loss(y_true: Any, y_pred: Any, delta: float = 1.0) -> Any:
    """Squared near the truth, linear beyond `delta`."""
    y_true, y_pred = _pair(y_true, y_pred)
    error = tf.abs(y_pred - y_true)
    quadratic = tf.minimum(error, delta)
    return tf.reduce_mean(0.5 * quadratic * quadratic + delta * (error - quadratic), axis=-1)


def logcosh(y_true: Any, y_pred: Any) -> Any:
    """``log(cosh(p − y))``."""
    y_true, y_pred = _pair(y_true, y_pred)
    x = y_pred - y_true
    return tf.reduce_mean(x + tf.nn.softplus(-2.0 * x) - tf.log(tf.constant(2.0, x.dtype)), axis=-1)


def _clipped(y_pred: Any) -> Any:
    return tf.clip_by_value(y_pred, state.epsilon(), 1.0 - state.epsilon())


def categorical_crossentropy(
    y_true: Any, y_pred: Any, from_logits: bool = False, label_smoothing: Any = 0, axis: int = -1
) -> Any:
    """The cross-entropy of one-hot labels."""
    y_true, y_pred = _pair(y_true, y_pred)
    if not (isinstance(label_smoothing, int | float) and label_smoothing == 0):
        classes = tf.cast(tf.shape(y_true)[-1], y_pred.dtype)
        y_true = y_true * (1.0 - label_smoothing) + label_smoothing / classes
    if from_logits:
        return tf.nn.softmax_cross_entropy_with_logits_v2(labels=y_true, logits=y_pred, axis=axis)
    y_pred = _clipped(y_pred / tf.reduce_sum(y_pred, axis, True))
    return -tf.reduce_sum(y_true * tf.log(y_pred), axis)


def sparse_categorical_crossentropy(
    y_true: Any, y_pred: Any, from_logits: bool = False, axis: int = -1
) -> Any:
    """The cross-entropy of labels that are numbers."""
    y_pred = tf.convert_to_tensor(y_pred)
    y_true = tf.cast(y_true, tf.int64)
    if y_true.shape.ndims is not None and y_true.shape.ndims == y_pred.shape.ndims:
        y_true = tf.squeeze(y_true, [-1])
    if not from_logits:
        y_pred = tf.log(_clipped(y_pred))
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y_true, logits=y_pred)


def binary_crossentropy(
    y_true: Any, y_pred: Any, from_logits: bool = False, label_smoothing: Any = 0
) -> Any:
    """The mean cross-entropy of independent probabilities."""
    y_true, y_pred = _pair(y_true, y_pred)
    if not (isinstance(label_smoothing, int | float) and label_smoothing == 0):
        y_true = y_true * (1.0 - label_smoothing) + 0.5 * label_smoothing
    if from_logits:
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=y_true, logits=y_pred)
        return tf.reduce_mean(losses, axis=-1)
    y_pred = _clipped(y_pred)
    losses = y_true * tf.log(y_pred + state.epsilon())
    losses += (1 - y_true) * tf.log(1 - y_pred + state.epsilon())
    return tf.reduce_mean(-losses, axis=-1)


def kullback_leibler_divergence(y_true: Any, y_pred: Any) -> Any:
    """``Σ y·log(y/p)``."""
    y_true, y_pred = _pair(y_true, y_pred)
    y_true = tf.clip_by_value(y_true, state.epsilon(), 1)
    y_pred = tf.clip_by_value(y_pred, state.epsilon(), 1)
    return tf.reduce_sum(y_true * tf.log(y_true / y_pred), axis=-1)


def poisson(y_true: Any, y_pred: Any) -> Any:
    """``p − y·log(p)``."""
    y_true, y_pred = _pair(y_true, y_pred)
    return tf.reduce_mean(y_pred - y_true * tf.log(y_pred + state.epsilon()), axis=-1)


def cosine_similarity(y_true: Any, y_pred: Any, axis: int = -1) -> Any:
    """The cosine of the angle, negated as a loss is."""
    y_true, y_pred = _pair(y_true, y_pred)
    return -tf.reduce_sum(
        tf.nn.l2_normalize(y_true, axis) * tf.nn.l2_normalize(y_pred, axis), axis=axis
    )


def compute_weighted_loss(
    losses: Any,
    sample_weight: Any = None,
    reduction: str = Reduction.SUM_OVER_BATCH_SIZE,
    name: str | None = None,
) -> Any:
    """Losses times weights, reduced."""
    Reduction.validate(reduction)
    if reduction == Reduction.AUTO:
        reduction = Reduction.SUM_OVER_BATCH_SIZE
    with tf.name_scope(name or "weighted_loss"):
        losses = tf.convert_to_tensor(losses)
        if sample_weight is not None:
            weights = tf.cast(sample_weight, losses.dtype)
            if weights.shape.ndims == (losses.shape.ndims or 0) + 1:
                weights = tf.squeeze(weights, [-1])
            while (weights.shape.ndims or 0) and weights.shape.ndims < (losses.shape.ndims or 0):
                weights = tf.expand_dims(weights, -1)
            losses = losses * weights
        if reduction == Reduction.NONE:
            return losses
        total = tf.reduce_sum(losses)
        if reduction == Reduction.SUM:
            return total
        return tf.div_no_nan(total, tf.cast(tf.size(losses), losses.dtype))


class Loss:
    """A loss of a batch: `call` gives one loss for each example."""

    def __init__(self, reduction: str = Reduction.AUTO, name: str | None = None) -> None:
        Reduction.validate(reduction)
        self.reduction = reduction
        self.name = name

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """The weighted and reduced loss."""
        with tf.name_scope(self.name or type(self).__name__):
            losses = self.call(y_true, y_pred)
            return compute_weighted_loss(losses, sample_weight, self.reduction)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """One loss for each example."""
        raise NotImplementedError("Must be implemented in subclasses.")

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {"reduction": self.reduction, "name": self.name}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The loss that `get_config` described."""
        return cls(**config)


class LossFunctionWrapper(Loss):
    """A function as a loss."""

    def __init__(
        self,
        fn: Any,
        reduction: str = Reduction.AUTO,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(reduction, name)
        self.fn = fn
        self._fn_kwargs = kwargs

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """The function's losses."""
        return self.fn(y_true, y_pred, **self._fn_kwargs)

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {**super().get_config(), **self._fn_kwargs}


def _class(name: str, function: Any, **options: Any) -> Any:
    """A class around a function; `options` are its own arguments and their defaults."""

    def init(
        self: Any, reduction: str = Reduction.AUTO, name: str | None = None, **given: Any
    ) -> None:
        unknown = set(given) - set(options)
        if unknown:
            raise TypeError(f"{type(self).__name__} got unexpected arguments {sorted(unknown)}")
        LossFunctionWrapper.__init__(
            self, function, reduction, name or default, **{**options, **given}
        )

    default = function.__name__
    parameters = [
        inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD),
        *(
            inspect.Parameter(key, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=value)
            for key, value in {**options, "reduction": Reduction.AUTO, "name": default}.items()
        ),
    ]
    signature = inspect.Signature(parameters)

    def bound(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, **{k: v for k, v in signature.bind(self, *args, **kwargs).arguments.items()
                      if k != "self"})  # fmt: skip

    bound.__signature__ = signature  # type: ignore[attr-defined]
    return type(name, (LossFunctionWrapper,), {"__init__": bound, "__doc__": function.__doc__})


MeanSquaredError = _class("MeanSquaredError", mean_squared_error)
MeanAbsoluteError = _class("MeanAbsoluteError", mean_absolute_error)
MeanAbsolutePercentageError = _class("MeanAbsolutePercentageError", mean_absolute_percentage_error)
MeanSquaredLogarithmicError = _class("MeanSquaredLogarithmicError", mean_squared_logarithmic_error)
BinaryCrossentropy = _class(
    "BinaryCrossentropy", binary_crossentropy, from_logits=False, label_smoothing=0
)
CategoricalCrossentropy = _class(
    "CategoricalCrossentropy", categorical_crossentropy, from_logits=False, label_smoothing=0
)
SparseCategoricalCrossentropy = _class(
    "SparseCategoricalCrossentropy", sparse_categorical_crossentropy, from_logits=False
)
Hinge = _class("Hinge", hinge)
SquaredHinge = _class("SquaredHinge", squared_hinge)
CategoricalHinge = _class("CategoricalHinge", categorical_hinge)
Huber = _class("Huber", huber_loss, delta=1.0)
LogCosh = _class("LogCosh", logcosh)
Poisson = _class("Poisson", poisson)
KLDivergence = _class("KLDivergence", kullback_leibler_divergence)
CosineSimilarity = _class("CosineSimilarity", cosine_similarity, axis=-1)

mse = MSE = mean_squared_error
mae = MAE = mean_absolute_error
mape = MAPE = mean_absolute_percentage_error
msle = MSLE = mean_squared_logarithmic_error
kld = KLD = kullback_leibler_divergence
cosine = cosine_proximity = cosine_similarity

_KNOWN = {
    key: value
    for key, value in list(globals().items())
    if (inspect.isfunction(value) and not key.startswith("_"))
    or (inspect.isclass(value) and issubclass(value, Loss))
}


def serialize(loss: Any) -> Any:
    """A name, or class name and configuration."""
    return serialization.serialize_keras_object(loss)


def deserialize(name: Any, custom_objects: dict[str, Any] | None = None) -> Any:
    """The loss of a name or configuration."""
    return serialization.deserialize_keras_object(name, _KNOWN, custom_objects, "loss function")


def get(identifier: Any) -> Any:
    """A loss by name or configuration, or as it is.

    Raises:
      ValueError: It is none of these.
    """
    if identifier is None:
        return None
    if isinstance(identifier, str | dict):
        return deserialize(identifier)
    if callable(identifier):
        return identifier
    raise ValueError(f"Could not interpret loss function identifier: {identifier}")
