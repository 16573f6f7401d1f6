"""`tf.keras.optimizers`: Keras's rules as TensorFlow optimizers.

Each is a `tf.train.Optimizer`, so that it has `minimize`, works on parameter servers and can be
wrapped (`SyncReplicasOptimizer`). The learning rate is a variable that a program may set.
A sparse gradient is made dense: Keras's rules move every row in every step.
"""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.keras import serialization
from millrace.keras.engine import state
from millrace.ops.state.variable_changes import assign, assign_add, assign_sub


class Optimizer(tf.train.Optimizer):
    """What all share: hyperparameters, gradients clipped as asked, decay of the rate."""

    def __init__(self, name: str | None = None, **kwargs: Any) -> None:
        super().__init__(use_locking=False, name=name or type(self).__name__)
        allowed = {"clipnorm", "clipvalue", "lr", "decay", "learning_rate"}
        unknown = set(kwargs) - allowed
        if unknown:
            raise TypeError(
                f"Unexpected keyword argument passed to optimizer: {sorted(unknown)[0]}"
            )
        self.clipnorm = kwargs.get("clipnorm")
        self.clipvalue = kwargs.get("clipvalue")
        self._initial_decay = float(kwargs.get("decay", 0.0) or 0.0)
        self._hyper: dict[str, Any] = {}
        self._made: dict[Any, Any] = {}
        self._iterations: Any = None

    # -- Hyperparameters -----------------------------------------------------------------------

    def _set_hyper(self, name: str, value: Any) -> None:
        self._hyper[name] = value

    def _get_hyper(self, name: str) -> Any:
        """The hyperparameter in the graph: a variable, a tensor, or a schedule's value."""
        value = self._hyper[name]
        if callable(value) and not isinstance(value, tf.Variable | tf.Tensor):
            return value(self.iterations) if name == "learning_rate" else value()
        if isinstance(value, tf.Variable | tf.Tensor):
            return value
        key = (tf.get_default_graph(), name)
        if key not in self._made:
            with tf.init_scope():
                made = tf.Variable(
                    float(value), name=f"{self._name}/{name}", trainable=False, use_resource=True
                )
            state.track_variable(made)
            self._made[key] = made
        return self._made[key]

    @property
    def learning_rate(self) -> Any:
        """The rate; setting it sets the variable."""
        return self._get_hyper("learning_rate")

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        key = (tf.get_default_graph(), "learning_rate")
        if key in self._made and isinstance(value, int | float):
            self._made[key].load(float(value), state.get_session())
        else:
            self._hyper["learning_rate"] = value

    lr = learning_rate

    @property
    def iterations(self) -> Any:
        """How many updates were made."""
        if self._iterations is None or self._iterations.graph is not tf.get_default_graph():
            with tf.init_scope():
                self._iterations = tf.Variable(
                    0, name=f"{self._name}/iter", dtype=tf.int64, trainable=False,
                    use_resource=True,
                )  # fmt: skip
            state.track_variable(self._iterations)
        return self._iterations

    def _rate(self, var: Any) -> Any:
        rate = tf.cast(self._get_hyper("learning_rate"), var.dtype.base_dtype)
        if self._initial_decay > 0.0:
            step = tf.cast(self.iterations, rate.dtype)
            rate = rate / (1.0 + self._initial_decay * step)
        return rate

    # -- Gradients ----------------------------------------------------------------------------

    def get_gradients(self, loss: Any, params: Any) -> list[Any]:
        """The gradients, clipped as asked.

        Raises:
          ValueError: A parameter has none.
        """
        gradients = tf.gradients(loss, params)
        for gradient, param in zip(gradients, params, strict=True):
            if gradient is None:
                raise ValueError(
                    f"Variable {param} has `None` for gradient. Please make sure that all of your "
                    "ops have a gradient defined (i.e. are differentiable)."
                )
        return self._clipped(gradients)

    def _clipped(self, gradients: list[Any]) -> list[Any]:
        if self.clipnorm is not None:
            gradients = [
                None if g is None else tf.clip_by_norm(g, self.clipnorm) for g in gradients
            ]
        if self.clipvalue is not None:
            limit = self.clipvalue
            gradients = [
                None if g is None else tf.clip_by_value(g, -limit, limit) for g in gradients
            ]
        return gradients

    def get_updates(self, loss: Any, params: Any) -> list[Any]:
        """Operations that make one step."""
        pairs = list(zip(self.get_gradients(loss, params), params, strict=True))
        return [self.apply_gradients(pairs)]

    def compute_gradients(self, loss: Any, var_list: Any = None, *args: Any, **kwargs: Any) -> Any:
        """(gradient, variable) pairs, clipped as asked."""
        if callable(loss) and not isinstance(loss, tf.Tensor):
            loss = loss()
        pairs = super().compute_gradients(loss, var_list, *args, **kwargs)
        clipped = self._clipped([g for g, _ in pairs])
        return [(g, v) for g, (_, v) in zip(clipped, pairs, strict=True)]

    def minimize(self, loss: Any, *args: Any, **kwargs: Any) -> Any:
        """One step; the second argument may be the global step, or Keras's list of variables."""
        if args and isinstance(args[0], list | tuple):
            kwargs["var_list"] = args[0]
            args = args[1:]
        return super().minimize(loss, *args, **kwargs)

    def _prepare(self) -> None:
        _ = self.iterations

    def _finish(self, update_ops: list[Any], name_scope: str) -> Any:
        with tf.control_dependencies(update_ops):
            counted = assign_add(self.iterations, 1)
        return tf.group(*update_ops, counted, name=name_scope)

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        return self._step(grad, var)

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        return self._step(grad, handle)

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        return self._step(tf.convert_to_tensor(grad), var)

    def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any) -> Any:
        shape = tf.TensorShape(handle.shape).as_list()
        return self._step(
            tf.convert_to_tensor(tf.IndexedSlices(grad, indices, tf.constant(shape))), handle
        )

    def _step(self, grad: Any, var: Any) -> Any:
        raise NotImplementedError

    def _slot(self, var: Any, name: str, initial: float = 0.0) -> Any:
        if initial == 0.0:
            return self._zeros_slot(var, name, f"{self._name}/{name}")
        value = tf.constant(initial, var.dtype.base_dtype, shape=var.shape.as_list())
        return self._get_or_make_slot(var, value, name, f"{self._name}/{name}")

    # -- Configuration ---------------------------------------------------------------------------

    def get_config(self) -> dict[str, Any]:
        """The hyperparameters."""
        config: dict[str, Any] = {"name": self._name}
        for key, value in self._hyper.items():
            made = self._made.get((tf.get_default_graph(), key))
            if made is not None:
                value = float(state.get_session().run(made))
            elif hasattr(value, "get_config"):
                value = serialization.serialize_keras_object(value)
            config[key] = value
        config["decay"] = self._initial_decay
        for key in ("clipnorm", "clipvalue"):
            if getattr(self, key) is not None:
                config[key] = getattr(self, key)
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The optimizer that `get_config` described."""
        return cls(**config)

    @property
    def weights(self) -> list[Any]:
        """The number of steps and the slots."""
        return [self.iterations, *self.variables()]

    def get_weights(self) -> list[Any]:
        """Their values."""
        return list(state.get_session().run(self.weights))

    def set_weights(self, weights: Any) -> None:
        """Sets their values."""
        for variable, value in zip(self.weights, weights, strict=True):
            variable.load(value, state.get_session())


class SGD(Optimizer):
    """Gradient descent, with momentum and Nesterov's look ahead."""

    def __init__(
        self,
        learning_rate: Any = 0.01,
        momentum: float = 0.0,
        nesterov: bool = False,
        name: str = "SGD",
        **kwargs: Any,
    ) -> None:
        super().__init__(name, **kwargs)
        self._set_hyper("learning_rate", kwargs.get("lr", learning_rate))
        self._hyper["momentum"] = momentum
        self.nesterov = nesterov
        self._has_momentum = isinstance(momentum, tf.Tensor) or callable(momentum) or momentum > 0

    def _step(self, grad: Any, var: Any) -> Any:
        rate = self._rate(var)
        if not self._has_momentum:
            return assign_sub(var, rate * grad)
        momentum = tf.cast(self._get_hyper("momentum"), grad.dtype)
        velocity = self._slot(var, "momentum")
        new = assign(velocity, momentum * velocity - rate * grad)
        return assign_add(var, momentum * new - rate * grad if self.nesterov else new)

    def get_config(self) -> dict[str, Any]:
        """The hyperparameters."""
        return {**super().get_config(), "nesterov": self.nesterov}


class RMSprop(Optimizer):
    """Gradients divided by a moving root mean square."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-7,
        centered: bool = False,
        name: str = "RMSprop",
        **kwargs: Any,
    ) -> None:
        super().__init__(name, **kwargs)
        self._set_hyper("learning_rate", kwargs.get("lr", learning_rate))
        self._set_hyper("rho", rho)
        self._set_hyper("momentum", momentum)
        self.epsilon = epsilon or state.epsilon()
        self.centered = centered
        self._has_momentum = momentum > 0

    def _step(self, grad: Any, var: Any) -> Any:
        rate, rho = self._rate(var), tf.cast(self._get_hyper("rho"), grad.dtype)
        mean_square = self._slot(var, "rms")
        square = assign(mean_square, rho * mean_square + (1.0 - rho) * tf.square(grad))
        denominator = square
        if self.centered:
            mean = self._slot(var, "mg")
            moved = assign(mean, rho * mean + (1.0 - rho) * grad)
            denominator = square - tf.square(moved)
        if self._has_momentum:
            velocity = self._slot(var, "momentum")
            momentum = tf.cast(self._get_hyper("momentum"), grad.dtype)
            change = rate * grad * tf.rsqrt(denominator + self.epsilon)
            return assign_sub(var, assign(velocity, momentum * velocity + change))
        return assign_sub(var, rate * grad / (tf.sqrt(denominator) + self.epsilon))

    def get_config(self) -> dict[str, Any]:
        """The hyperparameters."""
        return {**super().get_config(), "epsilon": self.epsilon, "centered": self.centered}


class Adagrad(Optimizer):
    """Gradients divided by the root of all squares so far."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        initial_accumulator_value: float = 0.1,
        epsilon: float = 1e-7,
        name: str = "Adagrad",
        **kwargs: Any,
    ) -> None:
        super().__init__(name, **kwargs)
        self._set_hyper("learning_rate", kwargs.get("lr", learning_rate))
        self._initial_accumulator_value = initial_accumulator_value
        self.epsilon = epsilon or state.epsilon()

    def _step(self, grad: Any, var: Any) -> Any:
        accumulator = self._slot(var, "accumulator", self._initial_accumulator_value)
        new = assign(accumulator, accumulator + tf.square(grad))
        return assign_sub(var, self._rate(var) * grad / (tf.sqrt(new) + self.epsilon))

    def get_config(self) -> dict[str, Any]:
        """The hyperparameters."""
        return {
            **super().get_config(),
            "initial_accumulator_value": self._initial_accumulator_value,
            "epsilon": self.epsilon,
        }


class Adadelta(Optimizer):
    """Steps in proportion to earlier steps."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: float = 0.95,
        epsilon: float = 1e-7,
        name: str = "Adadelta",
        **kwargs: Any,
    ) -> None:
        super().__init__(name, **kwargs)
        self._set_hyper("learning_rate", kwargs.get("lr", learning_rate))
        self._set_hyper("rho", rho)
        self.epsilon = epsilon or state.epsilon()

    def _step(self, grad: Any, var: Any) -> Any:
        rho = tf.cast(self._get_hyper("rho"), grad.dtype)
        squares, steps = self._slot(var, "accum_grad"), self._slot(var, "accum_var")
        new = assign(squares, rho * squares + (1.0 - rho) * tf.square(grad))
        change = grad * tf.sqrt(steps + self.epsilon) / tf.sqrt(new + self.epsilon)
        moved = assign(steps, rho * steps + (1.0 - rho) * tf.square(change))
        with tf.control_dependencies([moved]):
            return assign_sub(var, self._rate(var) * change)

    def get_config(self) -> dict[str, Any]:
        """The hyperparameters."""
        return {**super().get_config(), "epsilon": self.epsilon}


class Adam(Optimizer):
    """Moments of the gradient, corrected for their beginning at zero."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        name: str = "Adam",
        **kwargs: Any,
    ) -> None:
        super().__init__(name, **kwargs)
        self._set_hyper("learning_rate", kwargs.get("lr", learning_rate))
        self._set_hyper("beta_1", beta_1)
        self._set_hyper("beta_2", beta_2)
        self.epsilon = epsilon or state.epsilon()
        self.amsgrad = amsgrad

    def _moments(self, grad: Any, var: Any) -> tuple[Any, Any, Any, Any, Any]:
        beta_1 = tf.cast(self._get_hyper("beta_1"), grad.dtype)
        beta_2 = tf.cast(self._get_hyper("beta_2"), grad.dtype)
        step = tf.cast(self.iterations, grad.dtype) + 1.0
        m, v = self._slot(var, "m"), self._slot(var, "v")
        new_m = assign(m, beta_1 * m + (1.0 - beta_1) * grad)
        return beta_1, beta_2, step, new_m, v

    def _step(self, grad: Any, var: Any) -> Any:
        beta_1, beta_2, step, m, v = self._moments(grad, var)
        v = assign(v, beta_2 * v + (1.0 - beta_2) * tf.square(grad))
        rate = self._rate(var) * tf.sqrt(1.0 - tf.pow(beta_2, step)) / (1.0 - tf.pow(beta_1, step))
        if self.amsgrad:
            largest = self._slot(var, "vhat")
            v = assign(largest, tf.maximum(largest, v))
        return assign_sub(var, rate * m / (tf.sqrt(v) + self.epsilon))

    def get_config(self) -> dict[str, Any]:
        """The hyperparameters."""
        return {**super().get_config(), "epsilon": self.epsilon, "amsgrad": self.amsgrad}


class Adamax(Adam):
    """Adam with the infinity norm."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        name: str = "Adamax",
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, beta_1, beta_2, epsilon, False, name, **kwargs)

    def _step(self, grad: Any, var: Any) -> Any:
        beta_1, beta_2, step, m, v = self._moments(grad, var)
        v = assign(v, tf.maximum(beta_2 * v, tf.abs(grad)))
        rate = self._rate(var) / (1.0 - tf.pow(beta_1, step))
        return assign_sub(var, rate * m / (v + self.epsilon))

    def get_config(self) -> dict[str, Any]:
        """The hyperparameters."""
        config = super().get_config()
        del config["amsgrad"]
        return config


class Nadam(Adam):
    """Adam with Nesterov's momentum."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        name: str = "Nadam",
        **kwargs: Any,
    ) -> None:
        kwargs["decay"] = kwargs.pop("schedule_decay", 0.004)
        super().__init__(learning_rate, beta_1, beta_2, epsilon, False, name, **kwargs)
        self._schedule = self._initial_decay
        self._initial_decay = 0.0

    def _create_slots(self, var_list: Any) -> None:
        self._m_schedule = self._create_non_slot_variable(
            1.0, "m_schedule", min(var_list, key=lambda v: v.name)
        )

    def _prepare(self) -> None:
        super()._prepare()
        step = tf.cast(self.iterations, tf.float32) + 1.0
        beta_1 = tf.cast(self._get_hyper("beta_1"), tf.float32)
        self._now = beta_1 * (1.0 - 0.5 * tf.pow(0.96, step * self._schedule))
        self._next = beta_1 * (1.0 - 0.5 * tf.pow(0.96, (step + 1.0) * self._schedule))
        self._m_new = self._m_schedule * self._now
        self._m_after = self._m_new * self._next

    def _finish(self, update_ops: list[Any], name_scope: str) -> Any:
        with tf.control_dependencies(update_ops):
            moved = assign(self._m_schedule, self._m_new)
        return super()._finish([*update_ops, moved.op], name_scope)

    def _step(self, grad: Any, var: Any) -> Any:
        _, beta_2, step, m, v = self._moments(grad, var)
        v = assign(v, beta_2 * v + (1.0 - beta_2) * tf.square(grad))
        g_prime = grad / (1.0 - self._m_new)
        m_prime = m / (1.0 - self._m_after)
        v_prime = v / (1.0 - tf.pow(beta_2, step))
        m_bar = (1.0 - self._now) * g_prime + self._next * m_prime
        return assign_sub(var, self._rate(var) * m_bar / (tf.sqrt(v_prime) + self.epsilon))


class Ftrl(Optimizer):
    """Follow the regularized leader, by `tf.train.FtrlOptimizer`'s rule."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        name: str = "Ftrl",
        l2_shrinkage_regularization_strength: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(name, **kwargs)
        self._set_hyper("learning_rate", kwargs.get("lr", learning_rate))
        self._power = learning_rate_power
        self._initial = initial_accumulator_value
        self._l1, self._l2 = l1_regularization_strength, l2_regularization_strength
        self._shrinkage = l2_shrinkage_regularization_strength

    def _step(self, grad: Any, var: Any) -> Any:
        rate = self._rate(var)
        accumulator = self._slot(var, "accumulator", self._initial)
        linear = self._slot(var, "linear")
        shrunk = grad + 2.0 * self._shrinkage * var
        new = accumulator + tf.square(grad)
        powers = tf.pow(new, -self._power) - tf.pow(accumulator, -self._power)
        new_linear = linear + shrunk - powers / rate * var
        quadratic = tf.pow(new, -self._power) / rate + 2.0 * self._l2
        value = tf.where(
            tf.abs(new_linear) > self._l1,
            (tf.sign(new_linear) * self._l1 - new_linear) / quadratic,
            tf.zeros_like(new_linear),
        )
        with tf.control_dependencies([value, new, new_linear]):
            return tf.group(
                assign(var, value), assign(accumulator, new), assign(linear, new_linear)
            )


_KNOWN = {
    key.lower() if low else key: value
    for low in (True, False)
    for key, value in {
        "SGD": SGD, "RMSprop": RMSprop, "Adagrad": Adagrad, "Adadelta": Adadelta, "Adam": Adam,
        "Adamax": Adamax, "Nadam": Nadam, "Ftrl": Ftrl,
    }.items()
}  # fmt: skip


class TFOptimizer(Optimizer):
    """An optimizer of `tf.train`, for `Model.compile`."""

    def __init__(self, optimizer: Any, iterations: Any = None) -> None:
        super().__init__(optimizer.get_name())
        self.optimizer = optimizer

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: Any = None
    ) -> Any:
        """One step of the other optimizer."""
        applied = self.optimizer.apply_gradients(grads_and_vars, global_step, name)
        with tf.control_dependencies([applied]):
            return assign_add(self.iterations, 1).op

    def variables(self) -> list[Any]:
        """The other optimizer's."""
        return list(self.optimizer.variables())


def serialize(optimizer: Any) -> Any:
    """Class name and configuration."""
    return serialization.serialize_keras_object(optimizer)


def deserialize(config: Any, custom_objects: dict[str, Any] | None = None) -> Any:
    """The optimizer of a configuration."""
    config = {**config, "class_name": config["class_name"].lower()} if (
        config["class_name"].lower() in _KNOWN
    ) else config  # fmt: skip
    return serialization.deserialize_keras_object(config, _KNOWN, custom_objects, "optimizer")


def get(identifier: Any) -> Any:
    """An optimizer by name or configuration, or as it is; one of `tf.train` is wrapped.

    Raises:
      ValueError: It is none of these.
    """
    if isinstance(identifier, Optimizer):
        return identifier
    if isinstance(identifier, tf.train.Optimizer):
        return TFOptimizer(identifier)
    if isinstance(identifier, dict):
        return deserialize(identifier)
    if isinstance(identifier, str):
        return deserialize({"class_name": identifier, "config": {}})
    raise ValueError(f"Could not interpret optimizer identifier: {identifier}")
