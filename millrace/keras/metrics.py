"""`tf.keras.metrics`: values over many batches, kept in variables."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import millrace as tf
from millrace.keras import losses, serialization
from millrace.keras.engine import naming, state
from millrace.keras.engine.base_layer import Layer
from millrace.ops.state.variable_changes import assign_add


class Metric(Layer):
    """`update_state` adds a batch, `result` is the value, `reset_states` begins again."""

    def __init__(self, name: str | None = None, dtype: Any = None, **kwargs: Any) -> None:
        super().__init__(name=name, dtype=dtype or state.floatx(), **kwargs)
        self.stateful = True
        self.built = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Lets `updates` have what `update_state` of a subclass returns, as Estimators need it."""
        super().__init_subclass__(**kwargs)
        if "update_state" in vars(cls):
            cls.update_state = _recorded(cls.update_state)  # type: ignore[method-assign]

    def add_weight(  # type: ignore[override]
        self, name: str, shape: Any = (), initializer: Any = "zeros", dtype: Any = None, **_: Any
    ) -> Any:
        """A variable of the metric: local, not trained."""
        with tf.name_scope(self.name):
            return super().add_weight(
                name=name,
                shape=shape,
                dtype=dtype or self.dtype,
                initializer=initializer,
                trainable=False,
                collections=[tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES],
            )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The value after this batch."""
        update = self.update_state(*args, **kwargs)
        with tf.control_dependencies([update]):
            return tf.identity(self.result())

    def update_state(self, *args: Any, **kwargs: Any) -> Any:
        """An operation that adds a batch."""
        raise NotImplementedError

    def result(self) -> Any:
        """The value."""
        raise NotImplementedError

    def reset_states(self) -> None:
        """Begins again."""
        session = state.get_session()
        for variable in self.weights:
            variable.initializer.run(session=session)


def _recorded(update_state: Callable[..., Any]) -> Callable[..., Any]:
    """`update_state` whose operation is one of the metric's updates; that of super() is a part."""

    @functools.wraps(update_state)
    def update(self: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(self, "_is_updating", False):
            return update_state(self, *args, **kwargs)
        self._is_updating = True
        try:
            made = update_state(self, *args, **kwargs)
        finally:
            self._is_updating = False
        if made is not None:
            self.add_update(made)
        return made

    return update


class Reduce(Metric):
    """A total, and how many."""

    mean = True

    def __init__(self, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)
        self.total = self.add_weight("total")
        self.count = self.add_weight("count") if self.mean else None

    def update_state(self, values: Any, sample_weight: Any = None) -> Any:
        """Adds the values of a batch."""
        values = tf.cast(values, self.dtype)
        weights = None
        if sample_weight is not None:
            weights = tf.cast(sample_weight, values.dtype)
            while (weights.shape.ndims or 0) and weights.shape.ndims < (values.shape.ndims or 0):
                weights = tf.expand_dims(weights, -1)
            if weights.shape.ndims and weights.shape.ndims > (values.shape.ndims or 0):
                weights = tf.squeeze(weights, [-1])
            values = values * weights
        updates = [assign_add(self.total, tf.reduce_sum(values))]
        if self.count is not None:
            if weights is None:
                number = tf.cast(tf.size(values), self.dtype)
            else:
                number = tf.reduce_sum(tf.ones_like(values) * weights)
            updates.append(assign_add(self.count, number))
        return tf.group(*updates)

    def result(self) -> Any:
        """The total, or the mean."""
        if self.count is None:
            return tf.identity(self.total)
        return tf.div_no_nan(tf.identity(self.total), tf.identity(self.count))


class Mean(Reduce):
    """The weighted mean of values."""

    def __init__(self, name: str = "mean", dtype: Any = None) -> None:
        super().__init__(name, dtype)


class Sum(Reduce):
    """The weighted sum of values."""

    mean = False

    def __init__(self, name: str = "sum", dtype: Any = None) -> None:
        super().__init__(name, dtype)


class MeanMetricWrapper(Mean):
    """The mean of a function of (y_true, y_pred)."""

    def __init__(self, fn: Any, name: str | None = None, dtype: Any = None, **kwargs: Any) -> None:
        super().__init__(name or str(getattr(fn, "__name__", "metric")), dtype)
        self._fn = fn
        self._fn_kwargs = kwargs

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:  # type: ignore[override]
        """Adds a batch."""
        return super().update_state(
            self._fn(y_true, y_pred, **self._fn_kwargs), sample_weight=sample_weight
        )


def accuracy(y_true: Any, y_pred: Any) -> Any:
    """Whether prediction and label are the same."""
    return tf.cast(tf.equal(tf.cast(y_true, y_pred.dtype), y_pred), state.floatx())


def binary_accuracy(y_true: Any, y_pred: Any, threshold: float = 0.5) -> Any:
    """How many probabilities are on the right side."""
    chosen = tf.cast(y_pred > threshold, y_pred.dtype)
    equal = tf.cast(tf.equal(tf.cast(y_true, y_pred.dtype), chosen), state.floatx())
    return tf.reduce_mean(equal, axis=-1)


def categorical_accuracy(y_true: Any, y_pred: Any) -> Any:
    """Whether the likeliest class is the one-hot label's."""
    return tf.cast(tf.equal(tf.argmax(y_true, -1), tf.argmax(y_pred, -1)), state.floatx())


def sparse_categorical_accuracy(y_true: Any, y_pred: Any) -> Any:
    """Whether the likeliest class is the label."""
    y_true, y_pred = tf.convert_to_tensor(y_true), tf.convert_to_tensor(y_pred)
    if y_true.shape.ndims is not None and y_true.shape.ndims == y_pred.shape.ndims:
        y_true = tf.squeeze(y_true, [-1])
    chosen = tf.cast(tf.argmax(y_pred, -1), y_true.dtype)
    return tf.cast(tf.equal(y_true, chosen), state.floatx())


def top_k_categorical_accuracy(y_true: Any, y_pred: Any, k: int = 5) -> Any:
    """Whether the one-hot label is among the k likeliest."""
    return tf.cast(tf.nn.in_top_k(y_pred, tf.argmax(y_true, -1), k), state.floatx())


def sparse_top_k_categorical_accuracy(y_true: Any, y_pred: Any, k: int = 5) -> Any:
    """Whether the label is among the k likeliest."""
    flat = tf.reshape(tf.cast(y_true, tf.int32), [-1])
    return tf.cast(tf.nn.in_top_k(y_pred, flat, k), state.floatx())


def _of(name: str, function: Any, label: str, **options: Any) -> Any:
    """A class that is the mean of a function."""

    def init(self: Any, name: str = label, dtype: Any = None, **given: Any) -> None:
        MeanMetricWrapper.__init__(self, function, name, dtype, **{**options, **given})

    return type(name, (MeanMetricWrapper,), {"__init__": init, "__doc__": function.__doc__})


Accuracy = _of("Accuracy", accuracy, "accuracy")
BinaryAccuracy = _of("BinaryAccuracy", binary_accuracy, "binary_accuracy")
CategoricalAccuracy = _of("CategoricalAccuracy", categorical_accuracy, "categorical_accuracy")
SparseCategoricalAccuracy = _of(
    "SparseCategoricalAccuracy", sparse_categorical_accuracy, "sparse_categorical_accuracy"
)
TopKCategoricalAccuracy = _of(
    "TopKCategoricalAccuracy", top_k_categorical_accuracy, "top_k_categorical_accuracy"
)
SparseTopKCategoricalAccuracy = _of(
    "SparseTopKCategoricalAccuracy", sparse_top_k_categorical_accuracy,
    "sparse_top_k_categorical_accuracy",
)  # fmt: skip
MeanSquaredError = _of("MeanSquaredError", losses.mean_squared_error, "mean_squared_error")
MeanAbsoluteError = _of("MeanAbsoluteError", losses.mean_absolute_error, "mean_absolute_error")
MeanAbsolutePercentageError = _of(
    "MeanAbsolutePercentageError", losses.mean_absolute_percentage_error,
    "mean_absolute_percentage_error",
)  # fmt: skip
MeanSquaredLogarithmicError = _of(
    "MeanSquaredLogarithmicError", losses.mean_squared_logarithmic_error,
    "mean_squared_logarithmic_error",
)  # fmt: skip
BinaryCrossentropy = _of("BinaryCrossentropy", losses.binary_crossentropy, "binary_crossentropy")
CategoricalCrossentropy = _of(
    "CategoricalCrossentropy", losses.categorical_crossentropy, "categorical_crossentropy"
)
SparseCategoricalCrossentropy = _of(
    "SparseCategoricalCrossentropy", losses.sparse_categorical_crossentropy,
    "sparse_categorical_crossentropy",
)  # fmt: skip
Hinge = _of("Hinge", losses.hinge, "hinge")
SquaredHinge = _of("SquaredHinge", losses.squared_hinge, "squared_hinge")
CategoricalHinge = _of("CategoricalHinge", losses.categorical_hinge, "categorical_hinge")
KLDivergence = _of(
    "KLDivergence", losses.kullback_leibler_divergence, "kullback_leibler_divergence"
)
Poisson = _of("Poisson", losses.poisson, "poisson")
LogCoshError = _of("LogCoshError", losses.logcosh, "logcosh")


class RootMeanSquaredError(Mean):
    """The root of the mean squared error."""

    def __init__(self, name: str = "root_mean_squared_error", dtype: Any = None) -> None:
        super().__init__(name, dtype)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:  # type: ignore[override]
        """Adds a batch."""
        squares = tf.squared_difference(tf.cast(y_true, self.dtype), tf.cast(y_pred, self.dtype))
        return super().update_state(squares, sample_weight)

    def result(self) -> Any:
        """The root."""
        return tf.sqrt(super().result())


class _Counts(Metric):
    """Counts of one cell of the confusion matrix, at thresholds."""

    cells: tuple[str, ...] = ()

    def __init__(self, thresholds: Any = None, name: str | None = None, dtype: Any = None) -> None:
        label = name or naming.to_snake_case(type(self).__name__)
        super().__init__(name=label, dtype=dtype)
        self.thresholds = [0.5] if thresholds is None else list(tf.nest.flatten(thresholds))
        size = (len(self.thresholds),)
        self._sums = {cell: self.add_weight(cell, shape=size) for cell in self.cells}

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Adds a batch."""
        truth = tf.reshape(tf.cast(y_true, tf.bool), [1, -1])
        above = tf.reshape(tf.cast(y_pred, self.dtype), [1, -1]) > tf.reshape(
            tf.constant(self.thresholds, dtype=self.dtype), [-1, 1]
        )
        weight = tf.ones_like(tf.cast(above, self.dtype))
        if sample_weight is not None:
            weight = weight * tf.reshape(tf.cast(sample_weight, self.dtype), [1, -1])
        parts = {
            "true_positives": tf.logical_and(truth, above),
            "false_positives": tf.logical_and(tf.logical_not(truth), above),
            "true_negatives": tf.logical_and(tf.logical_not(truth), tf.logical_not(above)),
            "false_negatives": tf.logical_and(truth, tf.logical_not(above)),
        }
        return tf.group(
            *[
                assign_add(
                    self._sums[cell],
                    tf.reduce_sum(tf.cast(parts[cell], self.dtype) * weight, axis=1),
                )
                for cell in self.cells
            ]
        )

    def _value(self, value: Any) -> Any:
        return value[0] if len(self.thresholds) == 1 else value


class TruePositives(_Counts):
    """How many positives were found."""

    cells = ("true_positives",)

    def result(self) -> Any:
        """The count."""
        return self._value(tf.identity(self._sums[self.cells[0]]))


class FalsePositives(TruePositives):
    """How many negatives were taken for positives."""

    cells = ("false_positives",)


class TrueNegatives(TruePositives):
    """How many negatives were found."""

    cells = ("true_negatives",)


class FalseNegatives(TruePositives):
    """How many positives were missed."""

    cells = ("false_negatives",)


class Precision(_Counts):
    """How many of those found are positives."""

    cells = ("true_positives", "false_positives")

    def result(self) -> Any:
        """The share."""
        first, second = (tf.identity(self._sums[cell]) for cell in self.cells)
        return self._value(tf.div_no_nan(first, first + second))


class Recall(Precision):
    """How many of the positives were found."""

    cells = ("true_positives", "false_negatives")


class AUC(_Counts):
    """The area under the ROC curve, or that of precision and recall, from sums at thresholds."""

    cells = ("true_positives", "false_positives", "true_negatives", "false_negatives")

    def __init__(
        self,
        num_thresholds: int = 200,
        curve: str = "ROC",
        summation_method: str = "interpolation",
        name: str = "auc",
        dtype: Any = None,
    ) -> None:
        if curve not in ("ROC", "PR"):
            raise ValueError(f'Invalid AUC curve value "{curve}". There are "ROC" and "PR".')
        self._curve = curve
        inner = [(i + 1) / (num_thresholds - 1) for i in range(num_thresholds - 2)]
        super().__init__([0.0 - 1e-7, *inner, 1.0 + 1e-7], name, dtype)

    def result(self) -> Any:
        """The area: by trapezoids, or with precision interpolated (Davis and Goadrich, 2006)."""
        tp, fp, tn, fn = (tf.identity(self._sums[cell]) for cell in self.cells)
        if self._curve == "PR":
            return _precision_recall_area(tp, tp + fp, tp + fn)
        x, y = tf.div_no_nan(fp, fp + tn), tf.div_no_nan(tp, tp + fn)
        return tf.reduce_sum((x[:-1] - x[1:]) * (y[:-1] + y[1:]) / 2.0)


def _precision_recall_area(found: Any, said: Any, there: Any) -> Any:
    """The area under precision and recall, where true positives are linear between thresholds.

    Args:
      found: True positives at each threshold.
      said: Positives that were said.
      there: Positives that there are.
    """
    gained = found[:-1] - found[1:]
    slope = tf.div_no_nan(gained, tf.maximum(said[:-1] - said[1:], 0))
    intercept = found[1:] - slope * said[1:]
    both = tf.logical_and(said[:-1] > 0, said[1:] > 0)
    ratio = tf.where(both, tf.div_no_nan(said[:-1], said[1:]), tf.ones_like(said[1:]))
    area = slope * (gained + intercept * tf.log(ratio))
    return tf.reduce_sum(tf.div_no_nan(area, there[1:]))


acc, ACC = accuracy, accuracy
mse = MSE = losses.mean_squared_error
mae = MAE = losses.mean_absolute_error
mape = MAPE = losses.mean_absolute_percentage_error
msle = MSLE = losses.mean_squared_logarithmic_error
mean_squared_error = losses.mean_squared_error
mean_absolute_error = losses.mean_absolute_error
binary_crossentropy = losses.binary_crossentropy
categorical_crossentropy = losses.categorical_crossentropy
sparse_categorical_crossentropy = losses.sparse_categorical_crossentropy

_KNOWN = {
    key: value
    for key, value in list(globals().items())
    if not key.startswith("_") and callable(value) and key not in ("Any", "Layer", "assign_add")
}


def serialize(metric: Any) -> Any:
    """A name, or class name and configuration."""
    return serialization.serialize_keras_object(metric)


def deserialize(config: Any, custom_objects: dict[str, Any] | None = None) -> Any:
    """The metric of a name or configuration."""
    return serialization.deserialize_keras_object(config, _KNOWN, custom_objects, "metric function")


def get(identifier: Any) -> Any:
    """A metric by name or configuration, or as it is.

    Raises:
      ValueError: It is none of these.
    """
    if isinstance(identifier, str | dict):
        return deserialize(identifier)
    if callable(identifier):
        return identifier
    raise ValueError(f"Could not interpret metric function identifier: {identifier}")
