"""What all distributions share: names, shapes, samples, and what follows from what.

A subclass states `_sample_n`, `_log_prob` (or `_prob`), `_mean` and the like, and its shapes; the
public methods convert, name and derive (a probability from its logarithm, say). The underscored
methods are TensorFlow's, which programs override.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import millrace as tf


class ReparameterizationType:
    """Whether samples are a differentiable function of the parameters."""

    def __init__(self, rep_type: str) -> None:
        self._rep_type = rep_type

    def __repr__(self) -> str:
        return f"<Reparameterization Type: {self._rep_type}>"


FULLY_REPARAMETERIZED = ReparameterizationType("FULLY_REPARAMETERIZED")
NOT_REPARAMETERIZED = ReparameterizationType("NOT_REPARAMETERIZED")


#: The method that a value can be derived from, and how.
_Otherwise = tuple[str, Callable[..., Any]] | None


class Distribution:
    """A batch of distributions.

    Args:
      dtype: Of the samples.
      reparameterization_type: Whether gradients flow through samples.
      validate_args: Whether runs check parameters and values.
      allow_nan_stats: Whether an undefined statistic is NaN, or an error.
      parameters: What the constructor was given.
      graph_parents: Tensors that it depends on.
      name: A prefix of all ops.
    """

    def __init__(
        self, dtype: Any, reparameterization_type: ReparameterizationType, validate_args: bool,
        allow_nan_stats: bool, parameters: dict[str, Any] | None = None,
        graph_parents: Any = None, name: str | None = None,
    ) -> None:  # fmt: skip
        for number, parent in enumerate(graph_parents or []):
            if not tf.is_tensor(parent):
                raise ValueError(f"Graph parent item {number} is not a Tensor; {parent}.")
        if not name or not name.endswith("/"):
            with tf.name_scope(name or type(self).__name__) as name:
                pass
        self._dtype = dtype
        self._reparameterization_type = reparameterization_type
        self._validate_args, self._allow_nan_stats = validate_args, allow_nan_stats
        given = dict(parameters or {})
        self._parameters = {k: v for k, v in given.items() if k not in ("self", "__class__")}
        self._graph_parents = list(graph_parents or [])
        self._name = name

    @property
    def name(self) -> str:
        """The prefix of its ops."""
        return str(self._name)

    @property
    def dtype(self) -> Any:
        """The type of samples."""
        return self._dtype

    @property
    def parameters(self) -> dict[str, Any]:
        """What the constructor was given."""
        return dict(self._parameters)

    @property
    def reparameterization_type(self) -> ReparameterizationType:
        """Whether gradients flow through samples."""
        return self._reparameterization_type

    @property
    def allow_nan_stats(self) -> bool:
        """Whether an undefined statistic is NaN."""
        return self._allow_nan_stats

    @property
    def validate_args(self) -> bool:
        """Whether runs check parameters and values."""
        return self._validate_args

    def copy(self, **override_parameters_kwargs: Any) -> Any:
        """The same distribution with other parameters."""
        return type(self)(**{**self.parameters, **override_parameters_kwargs})

    # -- Shapes ------------------------------------------------------------------------

    @classmethod
    def param_shapes(cls, sample_shape: Any, name: str = "DistributionParamShapes") -> Any:
        """Shapes of parameters that give samples of a shape."""
        with tf.name_scope(name, values=[sample_shape]):
            return cls._param_shapes(sample_shape)

    @classmethod
    def param_static_shapes(cls, sample_shape: Any) -> dict[str, Any]:
        """As `param_shapes`, known now.

        Raises:
          ValueError: They cannot be.
        """
        shape = tf.TensorShape(sample_shape)
        if not shape.is_fully_defined():
            raise ValueError("TensorShape sample_shape must be fully defined")
        found = {}
        for name, each in cls.param_shapes(shape.as_list()).items():
            value = tf.get_static_value(each)
            if value is None:
                raise ValueError("sample_shape must be a fully-defined TensorShape or list/tuple")
            found[name] = tf.TensorShape(value)
        return found

    @staticmethod
    def _param_shapes(sample_shape: Any) -> dict[str, Any]:
        raise NotImplementedError("_param_shapes not implemented")

    @property
    def batch_shape(self) -> Any:
        """The static shape of the batch."""
        return tf.TensorShape(self._batch_shape())

    @property
    def event_shape(self) -> Any:
        """The static shape of one sample of one distribution."""
        return tf.TensorShape(self._event_shape())

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Any:
        """The shape of the batch."""
        with self._name_scope(name):
            return _shape_tensor(self.batch_shape, self._batch_shape_tensor)

    def event_shape_tensor(self, name: str = "event_shape_tensor") -> Any:
        """The shape of one sample of one distribution."""
        with self._name_scope(name):
            return _shape_tensor(self.event_shape, self._event_shape_tensor)

    def is_scalar_event(self, name: str = "is_scalar_event") -> Any:
        """Whether samples are numbers."""
        with self._name_scope(name):
            return _is_scalar(self.event_shape, self.event_shape_tensor)

    def is_scalar_batch(self, name: str = "is_scalar_batch") -> Any:
        """Whether it is one distribution."""
        with self._name_scope(name):
            return _is_scalar(self.batch_shape, self.batch_shape_tensor)

    def _batch_shape(self) -> Any:
        return None

    def _event_shape(self) -> Any:
        return None

    # -- Samples -----------------------------------------------------------------------

    def sample(self, sample_shape: Any = (), seed: Any = None, name: str = "sample") -> Any:
        """Samples of shape `sample_shape` + `batch_shape` + `event_shape`."""
        return self._call_sample_n(sample_shape, seed, name)

    def _call_sample_n(self, sample_shape: Any, seed: Any, name: str, **kwargs: Any) -> Any:
        with self._name_scope(name):
            shape = tf.convert_to_tensor(sample_shape, dtype=tf.int32, name="sample_shape")
            known = tf.get_static_value(shape)
            wanted = tf.reshape(shape, [-1]) if known is None else tf.constant(known.ravel())
            samples = self._sample_n(tf.reduce_prod(shape), seed, **kwargs)
            whole = tf.concat([wanted, tf.shape(samples)[1:]], 0)
            result = tf.reshape(samples, whole)
            if known is not None and self.batch_shape.ndims is not None:
                own = self.batch_shape.concatenate(self.event_shape)
                result.set_shape(tf.TensorShape(known.ravel().tolist()).concatenate(own))
            return result

    # -- Probabilities and statistics ----------------------------------------------------

    def log_prob(self, value: Any, name: str = "log_prob") -> Any:
        """The logarithm of the density, or of the probability."""
        return self._call(name, value, "_log_prob", ("_prob", tf.math.log))

    def prob(self, value: Any, name: str = "prob") -> Any:
        """The density, or the probability."""
        return self._call(name, value, "_prob", ("_log_prob", tf.exp))

    def log_cdf(self, value: Any, name: str = "log_cdf") -> Any:
        """The logarithm of the probability of at most `value`."""
        return self._call(name, value, "_log_cdf", ("_cdf", tf.math.log))

    def cdf(self, value: Any, name: str = "cdf") -> Any:
        """The probability of at most `value`."""
        return self._call(name, value, "_cdf", ("_log_cdf", tf.exp))

    def log_survival_function(self, value: Any, name: str = "log_survival_function") -> Any:
        """The logarithm of the probability of more than `value`."""
        return self._call(
            name, value, "_log_survival_function", ("cdf", lambda p: tf.math.log1p(-p))
        )

    def survival_function(self, value: Any, name: str = "survival_function") -> Any:
        """The probability of more than `value`."""
        return self._call(name, value, "_survival_function", ("cdf", lambda p: 1.0 - p))

    def quantile(self, value: Any, name: str = "quantile") -> Any:
        """The least number that a share `value` of samples does not pass."""
        return self._call(name, value, "_quantile")

    def entropy(self, name: str = "entropy") -> Any:
        """Shannon's entropy, in nats."""
        return self._statistic(name, "_entropy")

    def mean(self, name: str = "mean") -> Any:
        """The mean."""
        return self._statistic(name, "_mean")

    def variance(self, name: str = "variance") -> Any:
        """The variance."""
        return self._statistic(name, "_variance", ("_stddev", tf.square))

    def stddev(self, name: str = "stddev") -> Any:
        """The standard deviation."""
        return self._statistic(name, "_stddev", ("_variance", tf.sqrt))

    def covariance(self, name: str = "covariance") -> Any:
        """The covariance of the parts of a vector."""
        return self._statistic(name, "_covariance")

    def mode(self, name: str = "mode") -> Any:
        """The most probable value."""
        return self._statistic(name, "_mode")

    def cross_entropy(self, other: Any, name: str = "cross_entropy") -> Any:
        """The mean of ``-other.log_prob`` under this distribution."""
        with self._name_scope(name):
            return self._cross_entropy(other)

    def kl_divergence(self, other: Any, name: str = "kl_divergence") -> Any:
        """The divergence of Kullback and Leibler of `other` from this one."""
        with self._name_scope(name):
            return self._kl_divergence(other)

    def _cross_entropy(self, other: Any) -> Any:
        return self._kl_divergence(other) + self._entropy()

    def _kl_divergence(self, other: Any) -> Any:
        from millrace.distributions.divergence import kl_divergence

        return kl_divergence(self, other, allow_nan_stats=self.allow_nan_stats)

    def __getattr__(self, name: str) -> Any:
        if name in _STATED:
            # What a subclass does not state, it does not have.
            def missing(*_: Any, **__: Any) -> Any:
                raise NotImplementedError(
                    f"{name.lstrip('_')} is not implemented: {type(self).__name__}"
                )

            return missing
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _call(self, name: str, value: Any, method: str, otherwise: _Otherwise = None) -> Any:
        with self._name_scope(name):
            value = tf.convert_to_tensor(value, name="value", preferred_dtype=self.dtype)
            return self._derive(method, otherwise, value)

    def _statistic(self, name: str, method: str, otherwise: _Otherwise = None) -> Any:
        with self._name_scope(name):
            return self._derive(method, otherwise)

    def _derive(self, method: str, otherwise: Any, *values: Any) -> Any:
        try:
            return getattr(self, method)(*values)
        except NotImplementedError:
            if otherwise is None:
                raise
            other, function = otherwise
            try:
                return function(getattr(self, other)(*values))
            except NotImplementedError:
                pass
            raise

    @contextlib.contextmanager
    def _name_scope(self, name: str | None = None, values: Any = None) -> Iterator[str]:
        with tf.name_scope(self.name), tf.name_scope(name) as scope:
            yield scope

    def __str__(self) -> str:
        shown = [f'"{self.name}"']
        if self.batch_shape.ndims is not None:
            shown.append(f"batch_shape={self.batch_shape}")
        if self.event_shape.ndims is not None:
            shown.append(f"event_shape={self.event_shape}")
        words = ", ".join([*shown, f"dtype={self.dtype.name}"])
        return f"tfp.distributions.{type(self).__name__}({words})"

    def __repr__(self) -> str:
        return (
            f"<tfp.distributions.{type(self).__name__} '{self.name}' "
            f"batch_shape={self.batch_shape} event_shape={self.event_shape} "
            f"dtype={self.dtype.name}>"
        )


#: What a subclass may state.
_STATED = frozenset(
    "_sample_n _log_prob _prob _log_cdf _cdf _log_survival_function _survival_function _quantile "
    "_entropy _mean _variance _stddev _covariance _mode _batch_shape_tensor "
    "_event_shape_tensor".split()
)


def _shape_tensor(shape: Any, otherwise: Callable[[], Any]) -> Any:
    if shape.is_fully_defined():
        return tf.convert_to_tensor(shape.as_list(), dtype=tf.int32)
    return otherwise()


def _is_scalar(shape: Any, as_tensor: Callable[[], Any]) -> Any:
    if shape.ndims is not None:
        return tf.convert_to_tensor(shape.ndims == 0)
    return tf.equal(tf.size(as_tensor()), 0)


def new_seed(seed: Any, salt: str) -> int | None:
    """Another seed that follows from one."""
    if seed is None:
        return None
    digest = hashlib.md5(f"{seed}{salt}".encode(), usedforsecurity=False).hexdigest()
    return int(digest[:8], 16) & 0x7FFFFFFF


def checked(value: Any, conditions: list[Any], validate: bool) -> Any:
    """`value`, which waits for the conditions if runs are to check them."""
    if not validate:
        return value
    with tf.control_dependencies(conditions):
        return tf.identity(value)


def joint_shape(*parameters: Any) -> Any:
    """The static shape that parameters broadcast to."""
    shape = tf.TensorShape([])
    for each in parameters:
        shape = tf.broadcast_static_shape(shape, each.shape)
    return shape


def joint_shape_tensor(*parameters: Any) -> Any:
    """The shape that parameters broadcast to."""
    shape = tf.constant([], dtype=tf.int32)
    for each in parameters:
        shape = tf.broadcast_dynamic_shape(shape, tf.shape(each))
    return shape
