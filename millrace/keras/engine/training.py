"""`Model`: a network that can be compiled and trained in one process.

`fit` feeds batches to one training operation in Keras's session. It is the simple way; programs
that train on clusters use the layers in a graph of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import millrace as tf
from millrace.keras import callbacks as callbacks_module
from millrace.keras import losses, metrics, optimizers
from millrace.keras.engine import state
from millrace.keras.engine.network import Network, network_from_config


class Model(Network):
    """A network with a loss, an optimizer and metrics."""

    optimizer: Any = None
    stop_training = False
    _prepared = False

    def compile(
        self,
        optimizer: Any = "rmsprop",
        loss: Any = None,
        metrics: Any = None,
        loss_weights: Any = None,
        sample_weight_mode: Any = None,
        weighted_metrics: Any = None,
        target_tensors: Any = None,
        **kwargs: Any,
    ) -> None:
        """Says how the model is trained.

        Args:
          optimizer: An optimizer, or its name.
          loss: A loss, or one for each output in a list or by name.
          metrics: Metrics, in a list, or lists by the name of an output.
          loss_weights: A weight for each output's loss.
          sample_weight_mode: Not used.
          weighted_metrics: More metrics.
          target_tensors: Not used.
          **kwargs: Not used.
        """
        self.optimizer = optimizers.get(optimizer)
        self._loss, self._loss_weights = loss, loss_weights
        self._wanted_metrics = [*(metrics or [])] + [*(weighted_metrics or [])] if not isinstance(
            metrics, dict
        ) else metrics  # fmt: skip
        self._functions: dict[str, Any] = {}
        self._prepared = False

    # -- The graph of training ------------------------------------------------------------------

    def _prepare(self, x: Any) -> None:
        if self._prepared:
            return
        if self.optimizer is None:
            raise RuntimeError(
                "The model needs to be compiled before being used: call compile() first."
            )
        if self.inputs is None:
            self._build_from_data(x)
        per_output = self._per_output(self._loss)
        weights = self._per_output(self._loss_weights, 1.0)
        self._targets: list[Any] = []
        self._weight_placeholders: list[Any] = []
        total: Any = None
        self.metrics_names = ["loss"]
        self._metric_values: list[Any] = []
        self._metric_updates: list[Any] = []
        for name, output, loss, weight in zip(
            self.output_names, self.outputs, per_output, weights, strict=True
        ):
            if loss is None:
                self._targets.append(None)
                continue
            function = losses.get(loss)
            target = tf.placeholder(
                *_target_kind(function, output), name=f"{name.replace('/', '_')}_target"
            )
            sample_weight = tf.placeholder_with_default(
                tf.ones([1]), [None], name=f"{name.replace('/', '_')}_sample_weights"
            )
            self._targets.append(target)
            self._weight_placeholders.append(sample_weight)
            with tf.name_scope(f"loss/{name}_loss"):
                value = loss_value(function, target, output, sample_weight)
            total = weight * value if total is None else total + weight * value
            self._add_metrics(name, target, output, function)
        extra = self.losses
        if extra:
            with tf.name_scope("loss"):
                added = tf.add_n(extra)
                total = added if total is None else total + added
        if total is None:
            raise ValueError("The model cannot be compiled because it has no loss to optimize.")
        self.total_loss = total
        self._prepared = True

    def _per_output(self, given: Any, default: Any = None) -> list[Any]:
        count = len(self.outputs)
        if isinstance(given, dict):
            return [given.get(name, default) for name in self.output_names]
        if isinstance(given, list | tuple):
            if len(given) != count:
                raise ValueError(f"The model has {count} outputs, but was given {len(given)}.")
            return list(given)
        return [default if given is None else given] * count

    def _add_metrics(self, name: str, target: Any, output: Any, loss: Any) -> None:
        wanted = self._wanted_metrics
        if isinstance(wanted, dict):
            wanted = wanted.get(name, [])
        for each in wanted if isinstance(wanted, list | tuple) else [wanted]:
            metric = metric_of(each, output, loss)
            label = metric.name if len(self.outputs) == 1 else f"{name}_{metric.name}"
            self.metrics_names.append(label)
            self._metric_updates.append(metric.update_state(target, output))
            self._metric_values.append(metric.result())
            self._compiled_metrics = [*getattr(self, "_compiled_metrics", []), metric]

    def _build_from_data(self, x: Any) -> None:
        """Placeholders for a subclass or an unbuilt model, by the shapes of the data."""
        arrays = _as_list(x)
        inputs = [
            tf.placeholder(
                tf.as_dtype(np.asarray(a).dtype)
                if np.asarray(a).dtype != np.float64
                else tf.as_dtype(state.floatx()),
                [None, *np.shape(a)[1:]],
                name=f"input_{i + 1}",
            )
            for i, a in enumerate(arrays)
        ]
        outputs = self(inputs[0] if len(inputs) == 1 else inputs)
        self.inputs, self.outputs = inputs, list(tf.nest.flatten(outputs))
        self.input_names = [t.op.name for t in inputs]
        self.output_names = [f"output_{i + 1}" for i in range(len(self.outputs))]

    def _function(self, kind: str) -> list[Any]:
        """What a train, test or predict step fetches."""
        if kind not in self._functions:
            if kind == "predict":
                self._functions[kind] = self.outputs
            elif kind == "test":
                self._functions[kind] = [self.total_loss, tf.group(*self._metric_updates)]
            else:
                variables = self.trainable_weights
                with tf.name_scope("training"):
                    steps = self.optimizer.get_updates(self.total_loss, variables)
                with tf.control_dependencies(steps):
                    projected = [
                        v.assign(v.constraint(v)) for v in variables if v.constraint is not None
                    ]
                self._functions[kind] = [
                    self.total_loss,
                    tf.group(*steps, *projected, *self.updates, *self._metric_updates),
                ]
        return list(self._functions[kind])

    def _feed(self, x: Any, y: Any, sample_weight: Any, training: bool) -> dict[Any, Any]:
        given = zip(self.inputs, self._ordered(x, self.input_names), strict=True)
        feed: dict[Any, Any] = {tensor: _as_column(tensor, value) for tensor, value in given}
        if y is not None:
            values = self._ordered(y, self.output_names)
            targets = [t for t in self._targets if t is not None]
            for target, value in zip(targets, values, strict=True):
                feed[target] = array = _as_column(target, value)
                size = len(array)
            for placeholder in self._weight_placeholders:
                feed[placeholder] = np.ones([size]) if sample_weight is None else sample_weight
        phase = state.learning_phase()
        if isinstance(phase, tf.Tensor):
            feed[phase] = training
        return feed

    def _ordered(self, values: Any, names: list[str]) -> list[Any]:
        if isinstance(values, dict):
            return [values[name] for name in names]
        return _as_list(values)

    # -- Training -------------------------------------------------------------------------------

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: int = 1,
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        class_weight: Any = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Trains for some epochs; returns a `History`."""
        size = batch_size or 32
        x, y, validation_data = _split(x, y, validation_split, validation_data)
        self._prepare(x)
        self._function("train")
        history = callbacks_module.History()
        listeners = callbacks_module.CallbackList(
            [callbacks_module.ProgressLogger()] * (verbose > 0) + [history, *(callbacks or [])],
            self,
            {"epochs": epochs, "verbose": verbose, "metrics": self.metrics_names},
        )
        count = len(_as_list(x)[0] if not isinstance(x, dict) else next(iter(x.values())))
        order = np.arange(count)
        self.stop_training = False
        listeners.on_train_begin()
        for epoch in range(initial_epoch, epochs):
            self._reset_metrics()
            listeners.on_epoch_begin(epoch)
            if shuffle:
                np.random.shuffle(order)
            total, seen = 0.0, 0
            for number, begin in enumerate(range(0, count, size)):
                if steps_per_epoch is not None and number >= steps_per_epoch:
                    break
                rows = order[begin : begin + size]
                listeners.on_batch_begin(number, {"batch": number, "size": len(rows)})
                weights = _class_weights(class_weight, _take(y, rows), _take(sample_weight, rows))
                loss = self._run("train", _take(x, rows), _take(y, rows), weights)
                total, seen = total + loss * len(rows), seen + len(rows)
                listeners.on_batch_end(number, {"batch": number, "size": len(rows), "loss": loss})
            logs = dict(
                zip(self.metrics_names, [total / max(seen, 1), *self._metrics()], strict=True)
            )
            if validation_data is not None:
                found = self.evaluate(
                    validation_data[0], validation_data[1], batch_size=size, verbose=0
                )
                logs.update(
                    {
                        f"val_{name}": value
                        for name, value in zip(self.metrics_names, _as_list(found), strict=True)
                    }
                )
            listeners.on_epoch_end(epoch, logs)
            if self.stop_training:
                break
        listeners.on_train_end()
        return history

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: int = 1,
        sample_weight: Any = None,
        **kwargs: Any,
    ) -> Any:
        """The loss, and the metrics if there are any."""
        self._prepare(x)
        self._reset_metrics()
        size = batch_size or 32
        count = len(_as_list(x)[0] if not isinstance(x, dict) else next(iter(x.values())))
        total = 0.0
        for begin in range(0, count, size):
            rows = np.arange(begin, min(begin + size, count))
            weights = _take(sample_weight, rows)
            total += self._run("test", _take(x, rows), _take(y, rows), weights) * len(rows)
        values = [total / max(count, 1), *self._metrics()]
        return values[0] if len(values) == 1 else values

    def predict(
        self, x: Any, batch_size: int | None = None, verbose: int = 0, **kwargs: Any
    ) -> Any:
        """The outputs for all of `x`."""
        if self.inputs is None:
            self._build_from_data(x)
            self._functions = getattr(self, "_functions", {})
        size = batch_size or 32
        count = len(_as_list(x)[0] if not isinstance(x, dict) else next(iter(x.values())))
        parts = []
        for begin in range(0, count, size):
            rows = np.arange(begin, min(begin + size, count))
            parts.append(self.predict_on_batch(_take(x, rows), squeeze=False))
        joined = [np.concatenate(column) for column in zip(*parts, strict=True)]
        return joined[0] if len(joined) == 1 else joined

    def predict_on_batch(self, x: Any, squeeze: bool = True) -> Any:
        """The outputs for one batch."""
        if self.inputs is None:
            self._build_from_data(x)
        feed = self._feed(x, None, None, training=False)
        values = state.get_session().run(self.outputs, feed)
        return values[0] if squeeze and len(values) == 1 else values

    def train_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None, **_: Any) -> Any:
        """One step; the loss, and the metrics if there are any."""
        self._prepare(x)
        self._function("train")
        self._reset_metrics()
        values = [self._run("train", x, y, sample_weight), *self._metrics()]
        return values[0] if len(values) == 1 else values

    def test_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None, **_: Any) -> Any:
        """The loss of one batch, and the metrics if there are any."""
        return self.evaluate(x, y, batch_size=len(_as_list(x)[0]), sample_weight=sample_weight)

    def fit_generator(
        self, generator: Any, steps_per_epoch: int | None = None, epochs: int = 1, **kwargs: Any
    ) -> Any:
        """Trains on the batches of a generator; returns a `History`."""
        history = callbacks_module.History()
        steps = steps_per_epoch or len(generator)
        batches = iter(generator) if hasattr(generator, "__next__") else None
        listeners = callbacks_module.CallbackList(
            [history, *(kwargs.get("callbacks") or [])], self, {"epochs": epochs}
        )
        listeners.on_train_begin()
        for epoch in range(kwargs.get("initial_epoch", 0), epochs):
            listeners.on_epoch_begin(epoch)
            sums: Any = 0.0
            for number in range(steps):
                batch = next(batches) if batches is not None else generator[number]
                sums = sums + np.asarray(_as_list(self.train_on_batch(*batch)))
            logs = dict(zip(self.metrics_names, list(sums / steps), strict=True))
            listeners.on_epoch_end(epoch, logs)
        listeners.on_train_end()
        return history

    def _run(self, kind: str, x: Any, y: Any, sample_weight: Any) -> float:
        fetches = self._function(kind)
        session = state.get_session()
        values = session.run(fetches, self._feed(x, y, sample_weight, training=kind == "train"))
        return float(values[0])

    def _metrics(self) -> list[float]:
        if not self._metric_values:
            return []
        return [float(v) for v in state.get_session().run(self._metric_values)]

    def _reset_metrics(self) -> None:
        for metric in getattr(self, "_compiled_metrics", []):
            metric.reset_states()

    def reset_metrics(self) -> None:
        """Begins the metrics again."""
        self._reset_metrics()

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The model that `get_config` described."""
        return network_from_config(cls, config, custom_objects, layer_classes())


def layer_classes() -> dict[str, Any]:
    """Keras's classes of layers by name; filled by `millrace.keras.layers`."""
    return _LAYER_CLASSES


_LAYER_CLASSES: dict[str, Any] = {}


def register_layers(classes: dict[str, Any]) -> None:
    """Makes classes known to `from_config`."""
    _LAYER_CLASSES.update(classes)


def _as_column(tensor: Any, value: Any) -> Any:
    """An array with the dimension of size 1 that a list of numbers lacks."""
    array = np.asarray(value)
    rank = tensor.shape.ndims
    return array[..., None] if rank is not None and array.ndim == rank - 1 else array


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _take(values: Any, rows: Any) -> Any:
    if values is None:
        return None
    if isinstance(values, dict):
        return {k: np.asarray(v)[rows] for k, v in values.items()}
    if isinstance(values, list | tuple):
        return [np.asarray(v)[rows] for v in values]
    return np.asarray(values)[rows]


def _split(x: Any, y: Any, part: float, validation: Any) -> tuple[Any, Any, Any]:
    """The last `part` of the data is for validation."""
    if validation is not None or not part:
        return x, y, validation
    count = len(_as_list(x)[0])
    kept, held = np.arange(int(count * (1 - part))), np.arange(int(count * (1 - part)), count)
    return _take(x, kept), _take(y, kept), (_take(x, held), _take(y, held))


def _class_weights(class_weight: Any, y: Any, sample_weight: Any) -> Any:
    if class_weight is None:
        return sample_weight
    labels = np.asarray(y)
    if labels.ndim > 1 and labels.shape[-1] > 1:
        labels = labels.argmax(-1)
    weights = np.array([class_weight.get(int(c), 1.0) for c in labels.reshape(-1)])
    return weights if sample_weight is None else weights * sample_weight


def _target_kind(loss: Any, output: Any) -> tuple[Any, Any]:
    name = getattr(loss, "__name__", getattr(loss, "name", "")) or ""
    if "sparse_categorical" in name:
        shape = output.shape.as_list()[:-1]
        return output.dtype.base_dtype, [*shape, 1]
    return output.dtype.base_dtype, [None] * (output.shape.ndims or 2)


def loss_value(function: Any, target: Any, output: Any, sample_weight: Any = None) -> Any:
    """The loss of an output, a scalar."""
    if isinstance(function, losses.Loss):
        return function(target, output, sample_weight=sample_weight)
    values = function(target, output)
    return losses.compute_weighted_loss(values, sample_weight)


def metric_of(given: Any, output: Any, loss: Any) -> Any:
    """A metric as `compile` takes it: one, its name, or a function."""
    if isinstance(given, metrics.Metric):
        return given
    label = given if isinstance(given, str) else None
    if given in ("accuracy", "acc"):
        name = getattr(loss, "__name__", getattr(loss, "name", "")) or ""
        width = output.shape.as_list()[-1]
        if "sparse_categorical" in name:
            given = metrics.sparse_categorical_accuracy
        elif width == 1 or "binary" in name:
            given = metrics.binary_accuracy
        else:
            given = metrics.categorical_accuracy
    function = metrics.get(given)
    if isinstance(function, metrics.Metric):
        return function
    return metrics.MeanMetricWrapper(function, name=label or function.__name__)
