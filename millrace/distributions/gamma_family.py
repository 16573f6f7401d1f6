"""Distributions around the gamma function: Gamma, Exponential, Beta, Dirichlet and their kin."""

from __future__ import annotations

import math
from typing import Any

import millrace as tf
from millrace.distributions.continuous import ScalarDistribution
from millrace.distributions.distribution import (
    FULLY_REPARAMETERIZED,
    Distribution,
    checked,
    new_seed,
)
from millrace.distributions.divergence import RegisterKL


def nan_unless(condition: Any, value: Any, allowed: bool, words: str) -> Any:
    """A statistic that is not defined everywhere: NaN there, or an error in the run."""
    if allowed:
        return tf.where(condition, value, tf.fill(tf.shape(value), tf.cast(math.nan, value.dtype)))
    return checked(value, [tf.Assert(tf.reduce_all(condition), [words])], True)


class Gamma(ScalarDistribution):
    """The gamma distribution of shape `concentration` and inverse scale `rate`."""

    def __init__(
        self, concentration: Any, rate: Any, validate_args: bool = False,
        allow_nan_stats: bool = True, name: str = "Gamma",
    ) -> None:  # fmt: skip
        values = {"concentration": concentration, "rate": rate}
        super().__init__(values, locals(), ("concentration", "rate"))

    @staticmethod
    def _param_shapes(sample_shape: Any) -> dict[str, Any]:
        shape = tf.convert_to_tensor(sample_shape, dtype=tf.int32)
        return {"concentration": shape, "rate": shape}

    @property
    def concentration(self) -> Any:
        """The shape."""
        return self._values["concentration"]

    @property
    def rate(self) -> Any:
        """The inverse scale."""
        return self._values["rate"]

    def _sample_n(self, n: Any, seed: Any = None) -> Any:
        return tf.random_gamma([n], self.concentration, self.rate, self.dtype, seed)

    def _log_prob(self, x: Any) -> Any:
        x = checked(x, [tf.assert_positive(x)], True) if self.validate_args else x
        a, b = self.concentration, self.rate
        return tf.math.xlogy(a - 1.0, x) - b * x - (tf.math.lgamma(a) - a * tf.math.log(b))

    def _cdf(self, x: Any) -> Any:
        return tf.math.igamma(self.concentration, self.rate * x)

    def _entropy(self) -> Any:
        a = self.concentration
        return a - tf.math.log(self.rate) + tf.math.lgamma(a) + (1.0 - a) * tf.math.digamma(a)

    def _mean(self) -> Any:
        return self.concentration / self.rate

    def _variance(self) -> Any:
        return self.concentration / tf.square(self.rate)

    def _stddev(self) -> Any:
        return tf.sqrt(self.concentration) / self.rate

    def _mode(self) -> Any:
        mode = (self.concentration - 1.0) / self.rate
        words = "mode not defined when any concentration <= 1"
        above = self._everywhere(self.concentration) > 1.0
        return nan_unless(above, mode, self.allow_nan_stats, words)


class Exponential(Gamma):
    """The time until something happens that happens `rate` times per unit."""

    def __init__(
        self, rate: Any, validate_args: bool = False, allow_nan_stats: bool = True,
        name: str = "Exponential",
    ) -> None:  # fmt: skip
        given = {k: v for k, v in locals().items() if k not in ("self", "__class__")}
        with tf.name_scope(name, values=[rate]) as scope:
            rate = tf.convert_to_tensor(rate, name="rate")
        super().__init__(tf.ones([], rate.dtype), rate, validate_args, allow_nan_stats, scope)
        self._parameters = given

    @staticmethod
    def _param_shapes(sample_shape: Any) -> dict[str, Any]:
        return {"rate": tf.convert_to_tensor(sample_shape, dtype=tf.int32)}

    def _batch_shape(self) -> Any:
        return self.rate.shape

    def _sample_n(self, n: Any, seed: Any = None) -> Any:
        tiny = 1.17549435e-38 if self.dtype == tf.float32 else 2.2250738585072014e-308
        shape = tf.concat([[n], tf.shape(self.rate)], 0)
        drawn = tf.random_uniform(shape, tiny, 1.0, dtype=self.dtype, seed=seed)
        return -tf.math.log(drawn) / self.rate


class Chi2(Gamma):
    """The sum of `df` squares of standard normal numbers."""

    def __init__(
        self, df: Any, validate_args: bool = False, allow_nan_stats: bool = True,
        name: str = "Chi2",
    ) -> None:  # fmt: skip
        given = {k: v for k, v in locals().items() if k not in ("self", "__class__")}
        with tf.name_scope(name, values=[df]) as scope:
            self.df = tf.convert_to_tensor(df, name="df")
            half = tf.constant(0.5, dtype=self.df.dtype)
        super().__init__(half * self.df, half, validate_args, allow_nan_stats, scope)
        self._parameters = given


class InverseGamma(ScalarDistribution):
    """One over a number of the gamma distribution."""

    def __init__(
        self, concentration: Any, rate: Any, validate_args: bool = False,
        allow_nan_stats: bool = True, name: str = "InverseGamma",
    ) -> None:  # fmt: skip
        values = {"concentration": concentration, "rate": rate}
        super().__init__(values, locals(), ("concentration", "rate"))
        self.concentration, self.rate = self._values["concentration"], self._values["rate"]

    def _sample_n(self, n: Any, seed: Any = None) -> Any:
        return 1.0 / tf.random_gamma([n], self.concentration, self.rate, self.dtype, seed)

    def _log_prob(self, x: Any) -> Any:
        a, b = self.concentration, self.rate
        return -(1.0 + a) * tf.math.log(x) - b / x - (tf.math.lgamma(a) - a * tf.math.log(b))

    def _cdf(self, x: Any) -> Any:
        return tf.math.igammac(self.concentration, self.rate / x)

    def _entropy(self) -> Any:
        a = self.concentration
        return a + tf.math.log(self.rate) + tf.math.lgamma(a) - (1.0 + a) * tf.math.digamma(a)

    def _mean(self) -> Any:
        mean = self.rate / (self.concentration - 1.0)
        above = self._everywhere(self.concentration) > 1.0
        return nan_unless(
            above, mean, self.allow_nan_stats, "mean undefined for concentration <= 1"
        )

    def _variance(self) -> Any:
        a = self.concentration
        found = tf.square(self.rate) / tf.square(a - 1.0) / (a - 2.0)
        above = self._everywhere(a) > 2.0
        words = "variance undefined for concentration <= 2"
        return nan_unless(above, found, self.allow_nan_stats, words)

    def _mode(self) -> Any:
        return self.rate / (1.0 + self.concentration)


class Beta(ScalarDistribution):
    """The beta distribution of numbers between 0 and 1."""

    def __init__(
        self, concentration1: Any = None, concentration0: Any = None, validate_args: bool = False,
        allow_nan_stats: bool = True, name: str = "Beta",
    ) -> None:  # fmt: skip
        values = {"concentration1": concentration1, "concentration0": concentration0}
        super().__init__(values, locals(), ("concentration1", "concentration0"))
        self._total_concentration = self.concentration1 + self.concentration0

    @staticmethod
    def _param_shapes(sample_shape: Any) -> dict[str, Any]:
        shape = tf.convert_to_tensor(sample_shape, dtype=tf.int32)
        return {"concentration1": shape, "concentration0": shape}

    @property
    def concentration1(self) -> Any:
        """How much it is drawn to 1."""
        return self._values["concentration1"]

    @property
    def concentration0(self) -> Any:
        """How much it is drawn to 0."""
        return self._values["concentration0"]

    @property
    def total_concentration(self) -> Any:
        """Their sum."""
        return self._total_concentration

    def _sample_n(self, n: Any, seed: Any = None) -> Any:
        first = tf.random_gamma(
            [n], self._everywhere(self.concentration1), dtype=self.dtype, seed=seed
        )
        other = tf.random_gamma(
            [n], self._everywhere(self.concentration0), dtype=self.dtype,
            seed=new_seed(seed, "beta"),
        )  # fmt: skip
        return first / (first + other)

    def _log_normalization(self) -> Any:
        return (
            tf.math.lgamma(self.concentration1) + tf.math.lgamma(self.concentration0)
            - tf.math.lgamma(self.total_concentration)
        )  # fmt: skip

    def _log_prob(self, x: Any) -> Any:
        if self.validate_args:
            fine = [tf.assert_positive(x), tf.assert_less(x, tf.ones([], self.dtype))]
            x = checked(x, fine, True)
        ones = tf.math.xlogy(self.concentration1 - 1.0, x)
        zeros = (self.concentration0 - 1.0) * tf.math.log1p(-x)
        return ones + zeros - self._log_normalization()

    def _cdf(self, x: Any) -> Any:
        return tf.math.betainc(self.concentration1, self.concentration0, x)

    def _entropy(self) -> Any:
        one, zero, both = self.concentration1, self.concentration0, self.total_concentration
        return (
            self._log_normalization() - (one - 1.0) * tf.math.digamma(one)
            - (zero - 1.0) * tf.math.digamma(zero) + (both - 2.0) * tf.math.digamma(both)
        )  # fmt: skip

    def _mean(self) -> Any:
        return self.concentration1 / self.total_concentration

    def _variance(self) -> Any:
        mean = self._mean()
        return mean * (1.0 - mean) / (1.0 + self.total_concentration)

    def _mode(self) -> Any:
        mode = (self.concentration1 - 1.0) / (self.total_concentration - 2.0)
        inside = tf.logical_and(self.concentration1 > 1.0, self.concentration0 > 1.0)
        words = "Mode undefined for concentration1 <= 1."
        return nan_unless(inside, mode, self.allow_nan_stats, words)


class Dirichlet(Distribution):
    """Shares of a whole, the last dimension of `concentration`."""

    def __init__(
        self, concentration: Any, validate_args: bool = False, allow_nan_stats: bool = True,
        name: str = "Dirichlet",
    ) -> None:  # fmt: skip
        given = dict(locals())
        with tf.name_scope(name, values=[concentration]) as scope:
            value = tf.convert_to_tensor(concentration, name="concentration")
            value = checked(value, [tf.assert_positive(value)], True) if validate_args else value
            self._concentration = value
            self._total = tf.reduce_sum(value, -1)
        super().__init__(
            value.dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, given,
            [value, self._total], scope,
        )  # fmt: skip

    @property
    def concentration(self) -> Any:
        """The weights."""
        return self._concentration

    @property
    def total_concentration(self) -> Any:
        """Their sum."""
        return self._total

    def _batch_shape(self) -> Any:
        return self._total.shape

    def _batch_shape_tensor(self) -> Any:
        return tf.shape(self._total)

    def _event_shape(self) -> Any:
        return self._concentration.shape.with_rank_at_least(1)[-1:]

    def _event_shape_tensor(self) -> Any:
        return tf.shape(self._concentration)[-1:]

    def _sample_n(self, n: Any, seed: Any = None) -> Any:
        drawn = tf.random_gamma([n], self._concentration, dtype=self.dtype, seed=seed)
        return drawn / tf.reduce_sum(drawn, -1, keepdims=True)

    def _log_prob(self, x: Any) -> Any:
        whole = tf.reduce_sum(tf.math.xlogy(self._concentration - 1.0, x), -1)
        return whole - tf.math.lbeta(self._concentration)

    def _entropy(self) -> Any:
        size = tf.cast(self.event_shape_tensor()[0], self.dtype)
        alpha = self._concentration
        parts = tf.reduce_sum((alpha - 1.0) * tf.math.digamma(alpha), -1)
        both = (self._total - size) * tf.math.digamma(self._total)
        return tf.math.lbeta(alpha) + both - parts

    def _mean(self) -> Any:
        return self._concentration / self._total[..., tf.newaxis]

    def _covariance(self) -> Any:
        scaled = self._mean() * tf.sqrt(1.0 / (1.0 + self._total))[..., tf.newaxis]
        outer = -tf.matmul(scaled[..., tf.newaxis], scaled[..., tf.newaxis, :])
        return tf.matrix_set_diag(outer, self._variance())

    def _variance(self) -> Any:
        scale = tf.sqrt(1.0 / (1.0 + self._total))[..., tf.newaxis]
        mean = self._mean()
        scaled = mean * scale
        return scaled * (scale - scaled)

    def _mode(self) -> Any:
        size = tf.cast(self.event_shape_tensor()[0], self.dtype)
        mode = (self._concentration - 1.0) / (self._total[..., tf.newaxis] - size)
        words = "Mode undefined when any concentration <= 1"
        return nan_unless(self._concentration > 1.0, mode, self.allow_nan_stats, words)


@RegisterKL(Gamma, Gamma)
def _gammas(a: Any, b: Any, name: str | None = None) -> Any:
    with tf.name_scope(name, "kl_gamma_gamma"):
        return (
            (a.concentration - b.concentration) * tf.math.digamma(a.concentration)
            + tf.math.lgamma(b.concentration) - tf.math.lgamma(a.concentration)
            + b.concentration * (tf.math.log(a.rate) - tf.math.log(b.rate))
            + a.concentration * (b.rate / a.rate - 1.0)
        )  # fmt: skip


@RegisterKL(Beta, Beta)
def _betas(a: Any, b: Any, name: str | None = None) -> Any:
    def difference(of: str, function: Any) -> Any:
        return (getattr(b, of) - getattr(a, of)) * function(getattr(a, of))

    with tf.name_scope(name, "kl_beta_beta"):
        found = b._log_normalization() - a._log_normalization()
        found -= difference("concentration1", tf.math.digamma)
        found -= difference("concentration0", tf.math.digamma)
        return found + difference("total_concentration", tf.math.digamma)


@RegisterKL(Dirichlet, Dirichlet)
def _dirichlets(a: Any, b: Any, name: str | None = None) -> Any:
    with tf.name_scope(name, "kl_dirichlet"):
        whole = tf.math.digamma(tf.reduce_sum(a.concentration, -1, keepdims=True))
        parts = tf.math.digamma(a.concentration) - whole
        moved = tf.reduce_sum((a.concentration - b.concentration) * parts, -1)
        return moved - tf.math.lbeta(a.concentration) + tf.math.lbeta(b.concentration)
