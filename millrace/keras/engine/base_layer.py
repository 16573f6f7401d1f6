"""`Layer`: a function with variables. What Keras's, `tf.layers`' and RNN cells' classes share.

A layer makes its variables once (`build`, at the first call, when the input's shape is known),
and computes (`call`) inside a name scope of its own. It knows its losses and updates, the
layers inside it, and, for functional models, the calls that connected it to others.

`millrace.layers.base.Layer` adds variable scopes and collections, as `tf.layers` has them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import millrace as tf
from millrace.keras import constraints, initializers, regularizers
from millrace.keras.engine import naming, state
from millrace.keras.engine.input_spec import assert_input_compatibility
from millrace.keras.engine.node import Connections, Node, is_keras_tensor, mask_of
from millrace.ops.state.variable_store import accepted_arguments

#: Arguments of every layer's constructor beside its own.
_COMMON_ARGUMENTS = frozenset(
    "input_dim input_shape batch_input_shape batch_size weights activity_regularizer autocast "
    "implementation experimental_autocast".split()
)


class Layer(Connections):
    """The base of all layers.

    Attributes:
      name: Unique in the graph.
      trainable: Whether its variables are trained.
      built: Whether `build` ran.
      input_spec: What inputs it accepts, or None.
      stateful: Whether it carries state from one batch to the next.
      supports_masking: Whether it passes masks on.
    """

    def __init__(
        self,
        trainable: bool = True,
        name: str | None = None,
        dtype: Any = None,
        dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        unknown = set(kwargs) - _COMMON_ARGUMENTS
        if unknown:
            raise TypeError(f"Keyword argument not understood: {sorted(unknown)[0]!r}")
        self._tracked_layers: list[Layer] = []
        self._own_weights: list[tuple[Any, bool]] = []
        self._loss_functions: list[Callable[[], Any]] = []
        self._own_losses: list[Any] = []
        self._own_updates: list[tuple[Any, bool]] = []
        self._own_metrics: list[Any] = []
        self._constraints: dict[Any, Any] = {}
        Connections.__init__(self)
        self._trainable = trainable
        self._dtype = None if dtype is None else tf.as_dtype(dtype).name
        self._dynamic = dynamic
        self.built = False
        self.stateful = False
        self.supports_masking = False
        self.input_spec: Any = None
        self._call_arguments: Any = None
        self._init_set_name(name)
        self._activity_regularizer = regularizers.get(kwargs.pop("activity_regularizer", None))
        self._initial_weights = kwargs.get("weights")
        self._set_batch_input_shape(kwargs)

    def _set_batch_input_shape(self, kwargs: dict[str, Any]) -> None:
        if "input_dim" in kwargs and "input_shape" not in kwargs:
            kwargs["input_shape"] = (kwargs["input_dim"],)
        if "batch_input_shape" in kwargs:
            self._batch_input_shape: Any = tuple(kwargs["batch_input_shape"])
        elif "input_shape" in kwargs:
            self._batch_input_shape = (kwargs.get("batch_size"), *tuple(kwargs["input_shape"]))

    def _init_set_name(self, name: str | None, zero_based: bool = True) -> None:
        if name:
            self._name = name
        else:
            base = naming.to_snake_case(type(self).__name__)
            self._name = state.unique_object_name(base, zero_based=zero_based)

    # -- Inner layers and variables ----------------------------------------------------------

    def __setattr__(self, attribute: str, value: Any) -> None:
        tracked = self.__dict__.get("_tracked_layers")
        if tracked is not None and not attribute.startswith("__"):
            for layer in _layers_in(value):
                if layer is not self and not any(layer is known for known in tracked):
                    tracked.append(layer)
            if isinstance(value, tf.Variable):
                self._track_variable(value, bool(getattr(value, "trainable", True)))
        super().__setattr__(attribute, value)

    def _track_variable(self, variable: Any, trainable: bool) -> None:
        if not any(variable is known for known, _ in self._own_weights):
            self._own_weights.append((variable, trainable))

    def add_weight(
        self,
        name: str | None = None,
        shape: Any = None,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        trainable: bool | None = None,
        constraint: Any = None,
        partitioner: Any = None,
        use_resource: bool | None = None,
        synchronization: Any = tf.VariableSynchronization.AUTO,
        aggregation: Any = tf.VariableAggregation.NONE,
        **kwargs: Any,
    ) -> Any:
        """Makes a variable of the layer.

        Args:
          name: Its name inside the layer's scope.
          shape: Its shape, a scalar's when None.
          dtype: Its type, the layer's when None.
          initializer: A function of shape and type, or a name of one.
          regularizer: A function of the variable that gives a loss.
          trainable: Whether it is trained.
          constraint: A function that projects its value after an update.
          partitioner: How to cut it into parts.
          use_resource: Whether it is a resource variable, which it is by default.
          synchronization: For `tf.distribute`.
          aggregation: For `tf.distribute`.
          **kwargs: `getter`, `collections`, `caching_device`.

        Raises:
          ValueError: A type needs an initializer of its own.
        """
        getter = kwargs.pop("getter", None)
        kwargs.pop("experimental_autocast", None)
        if shape is None:
            shape = ()
        kind = tf.as_dtype(dtype or self._dtype or state.floatx())
        if self._dtype is None:
            self._dtype = kind.base_dtype.name
        if synchronization == tf.VariableSynchronization.ON_READ:
            if trainable:
                raise ValueError(
                    "Synchronization value can be set to VariableSynchronization.ON_READ only for "
                    "non-trainable variables. You have specified trainable=True and "
                    "synchronization=VariableSynchronization.ON_READ."
                )
            trainable = False
        elif trainable is None:
            trainable = True
        initializer = initializers.get(initializer)
        if initializer is None and getter is None:
            initializer = self._default_initializer(name, kind)
        variable = self._make_variable(
            getter,
            name=name,
            shape=shape,
            dtype=kind,
            initializer=initializer,
            trainable=trainable and self.trainable,
            constraint=constraints.get(constraint),
            partitioner=partitioner,
            use_resource=use_resource,
            synchronization=synchronization,
            aggregation=aggregation,
            **kwargs,
        )
        if constraint is not None:
            self._constraints[name] = constraint
        if regularizer is not None:
            self._regularize(name or "", variable, regularizers.get(regularizer))
        for part in parts_of(variable):
            state.track_variable(part)
            self._track_variable(part, trainable)
        return variable

    def add_variable(self, *args: Any, **kwargs: Any) -> Any:
        """`add_weight`, by its old name."""
        return self.add_weight(*args, **kwargs)

    def _default_initializer(self, name: str | None, dtype: Any) -> Any:
        if dtype.is_floating:
            return initializers.get("glorot_uniform")
        if dtype.is_integer or dtype.is_bool:
            return initializers.get("zeros")
        raise ValueError(
            f"An initializer for variable {name} of type {dtype} is required for layer {self.name}"
        )

    def _make_variable(self, getter: Any, **options: Any) -> Any:
        """A variable in the current name scope, not in the store of variable scopes."""
        name, shape, dtype = options.pop("name"), options.pop("shape"), options.pop("dtype")
        if getter is not None:
            if options.get("partitioner") is None:
                options.pop("partitioner", None)
            return getter(name, shape=shape, dtype=dtype, **options)
        initializer = options.pop("initializer")
        partitioner = options.pop("partitioner", None)
        if inspect.isclass(initializer):
            initializer = initializer()
        if options.get("use_resource") is None:
            options["use_resource"] = True
        if partitioner is not None:
            return self._make_partitioned(name, shape, dtype, initializer, partitioner, options)
        sizes = tf.TensorShape(shape).as_list()
        variable = tf.Variable(
            (lambda: initializer(sizes, dtype=dtype)) if callable(initializer) else initializer,
            name=name,
            dtype=dtype,
            **options,
        )
        return variable

    def _make_partitioned(
        self, name: Any, shape: Any, dtype: Any, initializer: Any, partitioner: Any, options: Any
    ) -> Any:
        scope = tf.get_default_graph().get_name_scope()
        with tf.name_scope(None):
            return tf.get_variable(
                f"{scope}/{name}" if scope else name,
                shape=shape,
                dtype=dtype,
                initializer=initializer,
                partitioner=partitioner,
                **options,
            )

    def _regularize(self, name: str, variable: Any, regularizer: Any) -> None:
        """Keras works the loss out when it is asked for."""
        for part in parts_of(variable):
            self.add_loss(lambda part=part: _regularization(name, part, regularizer))

    # -- What subclasses define ---------------------------------------------------------------

    def build(self, input_shape: Any) -> None:
        """Makes the variables."""
        self.built = True

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The computation itself."""
        return inputs

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The static shape of the output for that of the input: by default it is tried out."""
        with tf.Graph().as_default():
            inputs = tf.nest.map_structure(
                lambda s: tf.placeholder(self._dtype or state.floatx(), s),
                _as_shape_structure(input_shape),
            )
            clone = type(self).from_config(self.get_config())
            outputs = clone(inputs)
        return tf.nest.map_structure(lambda o: o.shape, outputs)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """The mask of the output; the input's where the layer passes masks on.

        Raises:
          TypeError: There is a mask, and the layer does not know what to do with it.
        """
        if not self.supports_masking:
            if any(m is not None for m in tf.nest.flatten(mask)):
                raise TypeError(
                    f"Layer {self.name} does not support masking, but was passed an input_mask: "
                    f"{mask}"
                )
            return None
        return mask

    def get_config(self) -> dict[str, Any]:
        """Arguments that would make this layer again, without its variables.

        Raises:
          NotImplementedError: The constructor takes arguments of its own and there is no
            `get_config` that tells them.
        """
        own = set(inspect.signature(type(self).__init__).parameters) - {"self", "kwargs", "args"}
        config: dict[str, Any] = {"name": self.name, "trainable": self.trainable}
        if hasattr(self, "_batch_input_shape"):
            config["batch_input_shape"] = self._batch_input_shape
        config["dtype"] = self._dtype
        if self._dynamic:
            config["dynamic"] = True
        extra = own - set(config) - _COMMON_ARGUMENTS - {"dynamic"}
        if extra and type(self).get_config is Layer.get_config:
            raise NotImplementedError(
                f"Layers with arguments in `__init__` must override `get_config`; "
                f"{type(self).__name__} has {sorted(extra)}"
            )
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The layer that `get_config` described."""
        return cls(**config)

    # -- The call -------------------------------------------------------------------------------

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Builds the layer at its first call, checks the inputs, and computes."""
        inputs = tf.nest.map_structure(_as_tensor, inputs)
        self._supply_mask(inputs, kwargs)
        self._supply_training(args, kwargs)
        with tf.name_scope(self._name_scope()):
            self._maybe_build(inputs)
            assert_input_compatibility(self.input_spec, inputs, self.name)
            outputs = self.call(inputs, *args, **kwargs)
            if outputs is None:
                raise ValueError(
                    "A layer's `call` method should return a Tensor or a list of Tensors, not "
                    f"None (layer: {self.name})."
                )
            self._regularize_activity(outputs)
            self._set_masks(inputs, outputs, kwargs.get("mask"))
        outputs = self._connect(inputs, outputs, args, kwargs)
        if self._initial_weights is not None:
            self.set_weights(self._initial_weights)
            self._initial_weights = None
        return outputs

    def apply(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls the layer."""
        return self(inputs, *args, **kwargs)

    def _name_scope(self) -> str:
        return self.name

    def _maybe_build(self, inputs: Any) -> None:
        if self.built:
            return
        assert_input_compatibility(self.input_spec, inputs, self.name)
        flat = tf.nest.flatten(inputs)
        if self._dtype is None and flat and hasattr(flat[0], "dtype"):
            kind = flat[0].dtype.base_dtype
            self._dtype = kind.name if kind.is_floating or kind.is_complex else state.floatx()
        shapes = None
        if all(hasattr(value, "shape") for value in flat):
            shapes = tf.nest.map_structure(lambda value: value.shape, inputs)
        self.build(shapes)
        self.built = True

    def _arguments_of_call(self) -> Any:
        if self._call_arguments is None:
            self._call_arguments = accepted_arguments(self.call)
        return self._call_arguments

    def _supply_mask(self, inputs: Any, kwargs: dict[str, Any]) -> None:
        if kwargs.get("mask") is None and self._takes("mask"):
            masks = tf.nest.map_structure(mask_of, inputs)
            if any(m is not None for m in tf.nest.flatten(masks)):
                kwargs["mask"] = masks

    def _takes(self, argument: str) -> bool:
        found = self._arguments_of_call()
        return hasattr(found, "keys") and argument in found

    def _supply_training(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """An inner layer takes the `training` of the call that it is in."""
        if not self._takes("training"):
            return
        given = kwargs.get("training")
        if given is None and not args and CallContext.training is not None:
            kwargs["training"] = CallContext.training

    def _regularize_activity(self, outputs: Any) -> None:
        if self._activity_regularizer is not None:
            for output in tf.nest.flatten(outputs):
                with tf.name_scope("ActivityRegularizer"):
                    loss = self._activity_regularizer(output)
                    batch = tf.cast(tf.shape(output)[0], loss.dtype)
                    self.add_loss(loss / batch, inputs=True)

    def _set_masks(self, inputs: Any, outputs: Any, mask: Any) -> None:
        flat = tf.nest.flatten(outputs)
        if mask is None:
            mask = tf.nest.map_structure(mask_of, inputs)
            if not any(m is not None for m in tf.nest.flatten(mask)):
                mask = None
        makes_mask = type(self).compute_mask is not Layer.compute_mask
        if mask is None and not makes_mask:
            return
        if not self.supports_masking and not makes_mask:
            return
        if all(getattr(o, "_keras_mask", None) is not None for o in flat):
            return
        masks = self.compute_mask(inputs, mask)
        flat_masks = [None] * len(flat) if masks is None else tf.nest.flatten(masks)
        for output, each in zip(flat, flat_masks, strict=False):
            if each is not None:
                output._keras_mask = each

    # -- Losses, updates, metrics ----------------------------------------------------------------

    def add_loss(self, losses: Any, inputs: Any = None) -> None:
        """Adds losses: tensors, or functions without arguments that give them."""
        for loss in tf.nest.flatten(losses):
            if callable(loss):
                self._loss_functions.append(loss)
            elif loss is not None:
                tensor: Any = tf.convert_to_tensor(loss)
                tensor._unconditional_loss = inputs is None
                self._own_losses.append(tensor)

    def add_update(self, updates: Any, inputs: Any = None) -> None:
        """Adds operations that a training step must run."""
        for update in updates if isinstance(updates, list | tuple) else [updates]:
            if callable(update) and not isinstance(update, tf.Tensor):
                update = update()
            if update is None:
                continue
            operation = getattr(update, "op", update)
            self._own_updates.append((operation, inputs is None))

    def add_metric(
        self, value: Any, aggregation: str | None = None, name: str | None = None
    ) -> None:
        """Notes a value that `fit` is to report."""
        self._own_metrics.append((name or f"{self.name}_metric", value, aggregation))

    @property
    def losses(self) -> list[Any]:
        """Losses of this layer and of those inside it."""
        if self._loss_functions:
            computed = [function() for function in self._loss_functions]
            for loss in computed:
                loss._unconditional_loss = True
            self._loss_functions.clear()
            self._own_losses.extend(computed)
        found = list(self._own_losses)
        for layer in self._tracked_layers:
            found.extend(layer.losses)
        return found

    @property
    def updates(self) -> list[Any]:
        """Operations that a training step must run, for this layer and those inside it."""
        if not self.trainable and not self.stateful:
            return []
        found = [operation for operation, _ in self._own_updates]
        for layer in self._tracked_layers:
            found.extend(layer.updates)
        return found

    def get_updates_for(self, inputs: Any) -> list[Any]:
        """Updates that depend on the inputs; without any inputs those that do not."""
        if inputs is None:
            return [operation for operation, always in self._own_updates if always]
        return [operation for operation, always in self._own_updates if not always]

    def get_losses_for(self, inputs: Any) -> list[Any]:
        """Losses that depend on the inputs; without any inputs those that do not."""
        wanted = inputs is None
        return [loss for loss in self.losses if loss._unconditional_loss == wanted]

    @property
    def metrics(self) -> list[Any]:
        """What `add_metric` noted, here and in the layers inside."""
        found = list(self._own_metrics)
        for layer in self._tracked_layers:
            found.extend(layer.metrics)
        return found

    # -- Properties ----------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The layer's name."""
        return self._name

    @property
    def dtype(self) -> Any:
        """The type of the layer's variables, as a text."""
        return self._dtype

    @property
    def dynamic(self) -> bool:
        """Whether the layer cannot be built in a graph."""
        return self._dynamic

    @property
    def trainable(self) -> bool:
        """Whether the layer's variables are trained."""
        return self._trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self._trainable = bool(value)
        for layer in self._tracked_layers:
            layer.trainable = value

    @property
    def activity_regularizer(self) -> Any:
        """The regularizer of the output."""
        return self._activity_regularizer

    @activity_regularizer.setter
    def activity_regularizer(self, value: Any) -> None:
        self._activity_regularizer = value

    @property
    def trainable_weights(self) -> list[Any]:
        """Variables that are trained, of this layer and of those inside it."""
        if not self.trainable:
            return []
        own = [variable for variable, trainable in self._own_weights if trainable]
        return _unique(own + [v for layer in self._tracked_layers for v in layer.trainable_weights])

    @property
    def non_trainable_weights(self) -> list[Any]:
        """Variables that are not trained, of this layer and of those inside it."""
        own = [variable for variable, trainable in self._own_weights if not trainable]
        inner = [v for layer in self._tracked_layers for v in layer.non_trainable_weights]
        if self.trainable:
            return _unique(own + inner)
        trained = [variable for variable, trainable in self._own_weights if trainable]
        return _unique(trained + own + inner)

    @property
    def weights(self) -> list[Any]:
        """All variables, the trained ones first."""
        return _unique(self.trainable_weights + self.non_trainable_weights)

    variables = weights

    @property
    def trainable_variables(self) -> list[Any]:
        """`trainable_weights`."""
        return self.trainable_weights

    @property
    def non_trainable_variables(self) -> list[Any]:
        """`non_trainable_weights`."""
        return self.non_trainable_weights

    @property
    def submodules(self) -> tuple[Layer, ...]:
        """All layers inside, at any depth."""
        return tuple(_walk(self))

    def _trackable_children(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """What a checkpoint of this layer holds, by the name of the attribute."""
        return {
            name: value
            for name, value in self.__dict__.items()
            if isinstance(value, tf.Variable | Layer) and not name.startswith("_tracked")
        }

    def count_params(self) -> int:
        """How many numbers the variables hold.

        Raises:
          ValueError: The layer has no variables yet.
        """
        if not self.built:
            raise ValueError(
                f"You tried to call `count_params` on {self.name}, but the layer isn't built. You "
                "can build it manually via: `layer.build(batch_input_shape)`."
            )
        return sum(int(np.prod(v.shape.as_list())) for v in self.weights)

    def get_weights(self) -> list[np.ndarray[Any, Any]]:
        """The values of all variables."""
        if not self.weights:
            return []
        return list(state.get_session().run(self.weights))

    def set_weights(self, weights: Any) -> None:
        """Sets the values of all variables.

        Raises:
          ValueError: Their number or a shape is another.
        """
        variables = self.weights
        if len(variables) != len(weights):
            raise ValueError(
                f'You called `set_weights(weights)` on layer "{self.name}" with a weight list of '
                f"length {len(weights)}, but the layer was expecting {len(variables)} weights."
            )
        for variable, value in zip(variables, weights, strict=True):
            if not variable.shape.is_compatible_with(np.shape(value)):
                raise ValueError(
                    f"Layer weight shape {variable.shape} not compatible with provided weight "
                    f"shape {np.shape(value)}"
                )
        session = state.get_session()
        for variable, value in zip(variables, weights, strict=True):
            variable.load(np.asarray(value, variable.dtype.base_dtype.as_numpy_dtype), session)


class CallContext:
    """The `training` argument of the model whose layers are being called."""

    training: Any = None


def _as_tensor(value: Any) -> Any:
    if isinstance(value, np.ndarray | float | int):
        return tf.convert_to_tensor(value)
    return value


def _layers_in(value: Any) -> Iterator[Layer]:
    if isinstance(value, Layer):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _layers_in(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _layers_in(each)


def _walk(layer: Layer) -> Iterator[Layer]:
    for inner in layer._tracked_layers:
        yield inner
        yield from _walk(inner)


def parts_of(variable: Any) -> list[Any]:
    parts = getattr(variable, "_get_variable_list", None)
    return [variable] if parts is None else list(parts())


def _regularization(name: str, variable: Any, regularizer: Any) -> Any:
    with tf.name_scope(f"{variable.op.name}/Regularizer/"):
        return regularizer(variable)


def _unique(variables: list[Any]) -> list[Any]:
    seen: set[int] = set()
    return [v for v in variables if not (id(v) in seen or seen.add(id(v)))]  # type: ignore[func-returns-value]


def _as_shape_structure(shape: Any) -> Any:
    if isinstance(shape, list) and shape and isinstance(shape[0], list | tuple | tf.TensorShape):
        return [tf.TensorShape(s) for s in shape]
    return tf.TensorShape(shape)


__all__ = ["Layer", "Node", "is_keras_tensor"]
