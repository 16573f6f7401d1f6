"""Distributions of real numbers: `tf.distributions` Normal, Uniform, Laplace, StudentT."""

from __future__ import annotations

import math
from typing import Any

import millrace as tf
from millrace.distributions.distribution import (
    FULLY_REPARAMETERIZED,
    Distribution,
    checked,
    joint_shape,
    joint_shape_tensor,
    new_seed,
)
from millrace.distributions.divergence import RegisterKL


class ScalarDistribution(Distribution):
    """One whose samples are numbers, and whose batch is what its parameters broadcast to.

    Args:
      values: The parameters by name, tensors of one type; attributes of these names.
      given: The local names of the constructor.
      positive: Names of those that must be.
    """

    def __init__(
        self, values: dict[str, Any], given: dict[str, Any], positive: tuple[str, ...] = (),
        reparameterization_type: Any = FULLY_REPARAMETERIZED, dtype: Any = None,
    ) -> None:  # fmt: skip
        validate = bool(given["validate_args"])
        tensors: dict[str, Any] = {}
        with tf.name_scope(given["name"], values=list(values.values())) as scope:
            kind = next((v.dtype for v in values.values() if tf.is_tensor(v)), None)
            for name, value in values.items():
                tensor = tf.convert_to_tensor(value, name=name, preferred_dtype=kind)
                kind = kind or tensor.dtype
                if name in positive and validate:
                    tensor = checked(tensor, [tf.assert_positive(tensor)], True)
                tensors[name] = tf.identity(tensor, name=name)
        self._values = tensors
        tf.debugging.assert_same_float_dtype(list(tensors.values()))
        super().__init__(
            dtype or next(iter(tensors.values())).dtype, reparameterization_type, validate,
            given["allow_nan_stats"], given, list(tensors.values()), scope,
        )  # fmt: skip

    @staticmethod
    def _param_shapes(sample_shape: Any) -> dict[str, Any]:
        shape = tf.convert_to_tensor(sample_shape, dtype=tf.int32)
        return {"loc": shape, "scale": shape}

    def _batch_shape(self) -> Any:
        return joint_shape(*self._values.values())

    def _batch_shape_tensor(self) -> Any:
        return joint_shape_tensor(*self._values.values())

    def _event_shape(self) -> Any:
        return []

    def _event_shape_tensor(self) -> Any:
        return tf.constant([], dtype=tf.int32)

    def _whole_shape(self, n: Any) -> Any:
        """The shape of `n` samples of each distribution."""
        return tf.concat([[n], self.batch_shape_tensor()], 0)

    def _everywhere(self, value: Any) -> Any:
        """A statistic that does not depend on all parameters, for the whole batch."""
        return value * tf.ones(self.batch_shape_tensor(), dtype=self.dtype)


class LocScale(ScalarDistribution):
    """One that is moved by `loc` and stretched by `scale`."""

    @property
    def loc(self) -> Any:
        """By how much it is moved."""
        return self._values["loc"]

    @property
    def scale(self) -> Any:
        """By how much it is stretched."""
        return self._values["scale"]

    def _z(self, x: Any) -> Any:
        with tf.name_scope("standardize", values=[x]):
            return (x - self.loc) / self.scale


class Normal(LocScale):
    """The normal distribution with mean `loc` and standard deviation `scale`."""

    def __init__(
        self, loc: Any, scale: Any, validate_args: bool = False, allow_nan_stats: bool = True,
        name: str = "Normal",
    ) -> None:  # fmt: skip
        super().__init__({"loc": loc, "scale": scale}, locals(), ("scale",))

    def _sample_n(self, n: Any, seed: Any = None) -> Any:
        drawn = tf.random_normal(self._whole_shape(n), 0.0, 1.0, dtype=self.loc.dtype, seed=seed)
        return drawn * self.scale + self.loc

    def _log_prob(self, x: Any) -> Any:
        return -0.5 * tf.square(self._z(x)) - (
            0.5 * math.log(2 * math.pi) + tf.math.log(self.scale)
        )

    def _log_cdf(self, x: Any) -> Any:
        return log_of_normal_cdf(self._z(x))

    def _cdf(self, x: Any) -> Any:
        return 0.5 * tf.math.erfc(-self._z(x) * math.sqrt(0.5))

    def _log_survival_function(self, x: Any) -> Any:
        return log_of_normal_cdf(-self._z(x))

    def _survival_function(self, x: Any) -> Any:
        return 0.5 * tf.math.erfc(self._z(x) * math.sqrt(0.5))

    def _quantile(self, p: Any) -> Any:
        return tf.math.ndtri(p) * self.scale + self.loc

    def _entropy(self) -> Any:
        scale = self.scale * tf.ones_like(self.loc)
        return 0.5 * math.log(2 * math.pi) + 0.5 + tf.math.log(scale)

    def _mean(self) -> Any:
        return self.loc * tf.ones_like(self.scale)

    _mode = _mean

    def _stddev(self) -> Any:
        return self.scale * tf.ones_like(self.loc)


def log_of_normal_cdf(x: Any) -> Any:
    """log Φ(x), exact where Φ itself would be 0 or 1."""
    far_left = x < tf.constant(-10.0 if x.dtype == tf.float32 else -20.0, x.dtype)
    far_right = x > tf.constant(5.0 if x.dtype == tf.float32 else 8.0, x.dtype)
    middle = tf.where(far_left | far_right, tf.zeros_like(x), x)
    left = tf.where(far_left, x, -tf.ones_like(x) * 11)
    series = tf.ones_like(x)
    term = tf.ones_like(x)
    for k in range(1, 4):  # Φ(x) ~ φ(x)/|x| · (1 - 1/x² + 3/x⁴ - …)
        term = -term * (2 * k - 1) / tf.square(left)
        series += term
    tail = -0.5 * tf.square(left) - tf.math.log(-left) - 0.5 * math.log(2 * math.pi)
    root = math.sqrt(0.5)
    right = -0.5 * tf.math.erfc(tf.where(far_right, x, tf.ones_like(x) * 9) * root)
    exact = tf.math.log(0.5 * tf.math.erfc(-middle * root))
    return tf.where(far_left, tail + tf.math.log(series), tf.where(far_right, right, exact))


class NormalWithSoftplusScale(Normal):
    """Normal whose standard deviation is ``softplus(scale)``."""

    def __init__(
        self, loc: Any, scale: Any, validate_args: bool = False, allow_nan_stats: bool = True,
        name: str = "NormalWithSoftplusScale",
    ) -> None:  # fmt: skip
        given = dict(locals())
        with tf.name_scope(name, values=[scale]) as scope:
            stretched = tf.nn.softplus(scale, name="softplus_scale")
        super().__init__(loc, stretched, validate_args, allow_nan_stats, scope)
        self._parameters = {k: v for k, v in given.items() if k not in ("self", "__class__")}


class Uniform(ScalarDistribution):
    """Every number from `low` up to `high` is as probable."""

    def __init__(
        self, low: Any = 0.0, high: Any = 1.0, validate_args: bool = False,
        allow_nan_stats: bool = True, name: str = "Uniform",
    ) -> None:  # fmt: skip
        super().__init__({"low": low, "high": high}, locals())
        if validate_args:
            fine = [
                tf.assert_less(self.low, self.high, message="uniform not defined when low >= high.")
            ]
            self._values = {k: checked(v, fine, True) for k, v in self._values.items()}

    @staticmethod
    def _param_shapes(sample_shape: Any) -> dict[str, Any]:
        shape = tf.convert_to_tensor(sample_shape, dtype=tf.int32)
        return {"low": shape, "high": shape}

    @property
    def low(self) -> Any:
        """The least."""
        return self._values["low"]

    @property
    def high(self) -> Any:
        """What is not reached."""
        return self._values["high"]

    def range(self, name: str = "range") -> Any:
        """``high - low``."""
        with self._name_scope(name):
            return self.high - self.low

    def _sample_n(self, n: Any, seed: Any = None) -> Any:
        drawn = tf.random_uniform(self._whole_shape(n), dtype=self.dtype, seed=seed)
        return self.low + self.range() * drawn

    def _prob(self, x: Any) -> Any:
        wide = x * tf.ones(self.batch_shape_tensor(), dtype=x.dtype)
        outside = tf.logical_or(wide < self.low, wide >= self.high)
        inside = tf.ones_like(wide) / self.range()
        known = tf.where(outside, tf.zeros_like(wide), inside)
        return tf.where(tf.math.is_nan(wide), wide, known)

    def _cdf(self, x: Any) -> Any:
        shape = tf.broadcast_dynamic_shape(tf.shape(x), self.batch_shape_tensor())
        zeros = tf.zeros(shape, dtype=self.dtype)
        part = (x - self.low) / self.range()
        return tf.where(
            x < self.low + zeros, zeros, tf.where(x >= self.high + zeros, 1 + zeros, part + zeros)
        )

    def _entropy(self) -> Any:
        return tf.math.log(self.range())

    def _mean(self) -> Any:
        return (self.low + self.high) / 2.0

    def _variance(self) -> Any:
        return tf.square(self.range()) / 12.0

    def _stddev(self) -> Any:
        return self.range() / math.sqrt(12.0)


class Laplace(LocScale):
    """Two exponential distributions, back to back at `loc`."""

    def __init__(
        self, loc: Any, scale: Any, validate_args: bool = False, allow_nan_stats: bool = True,
        name: str = "Laplace",
    ) -> None:  # fmt: skip
        super().__init__({"loc": loc, "scale": scale}, locals(), ("scale",))

    def _sample_n(self, n: Any, seed: Any = None) -> Any:
        # The least number above -1, so that the logarithm is finite.
        least = -1.0 + 2.0**-24 if self.dtype == tf.float32 else -1.0 + 2.0**-53
        drawn = tf.random_uniform(self._whole_shape(n), least, 1.0, dtype=self.dtype, seed=seed)
        return self.loc - self.scale * tf.sign(drawn) * tf.math.log1p(-tf.abs(drawn))

    def _log_prob(self, x: Any) -> Any:
        return -tf.abs(self._z(x)) - math.log(2.0) - tf.math.log(self.scale)

    def _log_cdf(self, x: Any) -> Any:
        z = self._z(x)
        above = tf.math.log1p(-0.5 * tf.exp(-tf.abs(z)))
        return tf.where(z < 0, z - math.log(2.0), above)

    def _log_survival_function(self, x: Any) -> Any:
        z = self._z(x)
        return tf.where(z > 0, -z - math.log(2.0), tf.math.log1p(-0.5 * tf.exp(-tf.abs(z))))

    def _cdf(self, x: Any) -> Any:
        z = self._z(x)
        return 0.5 + 0.5 * tf.sign(z) * (1.0 - tf.exp(-tf.abs(z)))

    def _entropy(self) -> Any:
        return self._everywhere(math.log(2.0) + 1 + tf.math.log(self.scale))

    def _mean(self) -> Any:
        return self._everywhere(self.loc)

    _median = _mode = _mean

    def _stddev(self) -> Any:
        return self._everywhere(math.sqrt(2.0) * self.scale)


class StudentT(LocScale):
    """Student's distribution with `df` degrees of freedom."""

    def __init__(
        self, df: Any, loc: Any, scale: Any, validate_args: bool = False,
        allow_nan_stats: bool = True, name: str = "StudentT",
    ) -> None:  # fmt: skip
        super().__init__({"df": df, "loc": loc, "scale": scale}, locals(), ("df",))

    @staticmethod
    def _param_shapes(sample_shape: Any) -> dict[str, Any]:
        shape = tf.convert_to_tensor(sample_shape, dtype=tf.int32)
        return {"df": shape, "loc": shape, "scale": shape}

    @property
    def df(self) -> Any:
        """Degrees of freedom."""
        return self._values["df"]

    def _sample_n(self, n: Any, seed: Any = None) -> Any:
        drawn = tf.random_normal(self._whole_shape(n), dtype=self.dtype, seed=seed)
        df = self._everywhere(self.df)
        spread = tf.random_gamma([n], 0.5 * df, 0.5, self.dtype, new_seed(seed, "student_t"))
        return drawn * tf.math.rsqrt(spread / df) * self.scale + self.loc

    def _log_normalization(self) -> Any:
        return (
            tf.math.log(tf.abs(self.scale)) + 0.5 * tf.math.log(self.df) + 0.5 * math.log(math.pi)
            + tf.math.lgamma(0.5 * self.df) - tf.math.lgamma(0.5 * (self.df + 1.0))
        )  # fmt: skip

    def _log_prob(self, x: Any) -> Any:
        tails = -0.5 * (self.df + 1.0) * tf.math.log1p(tf.square(self._z(x)) / self.df)
        return tails - self._log_normalization()

    def _cdf(self, x: Any) -> Any:
        z = (x - self.loc) / tf.abs(self.scale)
        tail = 0.5 * tf.math.betainc(
            0.5 * self.df, tf.cast(0.5, self.dtype), self.df / (tf.square(z) + self.df)
        )
        return tf.where(z < 0, tail, 1.0 - tail)

    def _entropy(self) -> Any:
        half = 0.5 * self.df
        more = half + 0.5
        beta = (
            tf.math.lgamma(half) + tf.math.lgamma(tf.cast(0.5, self.dtype)) - tf.math.lgamma(more)
        )
        inner = tf.math.log(tf.abs(self.scale)) + 0.5 * tf.math.log(self.df) + beta
        return self._everywhere(inner + more * (tf.math.digamma(more) - tf.math.digamma(half)))

    def _mean(self) -> Any:
        return self._where_defined(self._everywhere(self.loc), 1.0, "mean")

    def _variance(self) -> Any:
        df = tf.where(self.df > 2.0, self.df, tf.ones_like(self.df) * 3.0)
        finite = self._everywhere(df / (df - 2.0) * tf.square(self.scale))
        wide = self._everywhere(self.df)
        found = tf.where(wide > 2.0, finite, tf.fill(tf.shape(wide), tf.cast(math.inf, self.dtype)))
        return self._where_defined(found, 1.0, "variance")

    def _mode(self) -> Any:
        return self._everywhere(self.loc)

    def _where_defined(self, value: Any, least: float, what: str) -> Any:
        if self.allow_nan_stats:
            nan = tf.fill(tf.shape(value), tf.cast(math.nan, self.dtype))
            return tf.where(self._everywhere(self.df) > least, value, nan)
        words = f"{what} not defined for components of df <= {least:g}"
        fine = [tf.assert_less(tf.cast(least, self.dtype), self.df, message=words)]
        return checked(value, fine, True)


@RegisterKL(Normal, Normal)
def _normals(a: Any, b: Any, name: str | None = None) -> Any:
    with tf.name_scope(name, "kl_normal_normal", [a.loc, b.loc]):
        ratio = tf.square(a.scale) / tf.square(b.scale)
        moved = tf.square(a.loc - b.loc) / (2.0 * tf.square(b.scale))
        return moved + 0.5 * (ratio - 1.0 - tf.math.log(ratio))
