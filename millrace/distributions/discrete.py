"""Distributions of counts and choices: Bernoulli, Categorical, Multinomial and their kin."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.distributions.distribution import (
    NOT_REPARAMETERIZED,
    Distribution,
    checked,
)
from millrace.distributions.divergence import RegisterKL


def logits_and_probs(
    logits: Any, probs: Any, many: bool, validate: bool, name: str = "get_logits_and_probs"
) -> tuple[Any, Any]:
    """Both, of the one that was given; `many` if the last dimension is a choice.

    Raises:
      ValueError: Both were given, or none.
    """
    if (logits is None) == (probs is None):
        raise ValueError("Must pass probs or logits, but not both.")
    with tf.name_scope(name, values=[probs, logits]):
        if logits is not None:
            logits = tf.convert_to_tensor(logits, name="logits")
            if not logits.dtype.is_floating:
                raise TypeError("logits must having floating type.")
            squash = tf.nn.softmax if many else tf.nn.sigmoid
            return logits, squash(logits, name="probs")
        probs = tf.convert_to_tensor(probs, name="probs")
        if not probs.dtype.is_floating:
            raise TypeError("probs must having floating type.")
        if validate:
            fine = [tf.assert_non_negative(probs)]
            one = tf.ones([], probs.dtype)
            if many:
                fine.append(tf.debugging.assert_near(tf.reduce_sum(probs, -1), one))
            else:
                fine.append(
                    tf.assert_less_equal(probs, one, message="probs has components greater than 1.")
                )
            probs = checked(probs, fine, True)
        logs = tf.math.log(probs)
        return (logs if many else logs - tf.math.log1p(-1.0 * probs)), probs


class _Odds(Distribution):
    """One that has logits and probs."""

    def __init__(self, given: dict[str, Any], many: bool, dtype: Any) -> None:
        given = {k: v for k, v in given.items() if k not in ("self", "__class__")}
        with tf.name_scope(given["name"]) as scope:
            self._logits, self._probs = logits_and_probs(
                given["logits"], given["probs"], many, given["validate_args"]
            )
            if many:
                self._event_size = tf.shape(self._logits, name="event_size")[-1]
        super().__init__(
            dtype or self._logits.dtype, NOT_REPARAMETERIZED, given["validate_args"],
            given["allow_nan_stats"], given, [self._logits, self._probs], scope,
        )  # fmt: skip

    @property
    def logits(self) -> Any:
        """Logarithms of odds, or of probabilities up to a constant."""
        return self._logits

    @property
    def probs(self) -> Any:
        """Probabilities."""
        return self._probs

    @staticmethod
    def _param_shapes(sample_shape: Any) -> dict[str, Any]:
        return {"logits": tf.convert_to_tensor(sample_shape, dtype=tf.int32)}

    def _batch_shape(self) -> Any:
        return self._logits.shape

    def _batch_shape_tensor(self) -> Any:
        return tf.shape(self._logits)

    def _event_shape(self) -> Any:
        return []

    def _event_shape_tensor(self) -> Any:
        return tf.constant([], dtype=tf.int32)


class Bernoulli(_Odds):
    """1 with probability `probs`, else 0."""

    def __init__(
        self, logits: Any = None, probs: Any = None, dtype: Any = tf.int32,
        validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Bernoulli",
    ) -> None:  # fmt: skip
        super().__init__(locals(), False, tf.as_dtype(dtype))

    def _sample_n(self, n: Any, seed: Any = None) -> Any:
        shape = tf.concat([[n], self.batch_shape_tensor()], 0)
        drawn = tf.random_uniform(shape, seed=seed, dtype=self.probs.dtype)
        return tf.cast(drawn < self.probs, self.dtype)

    def _log_prob(self, event: Any) -> Any:
        if self.validate_args:
            event = checked(
                event,
                [
                    tf.assert_non_negative(event),
                    tf.assert_less_equal(event, tf.ones([], event.dtype)),
                ],
                True,
            )
        event = tf.cast(event, self.logits.dtype)
        wide = event + tf.zeros_like(self.logits)
        logits = self.logits + tf.zeros_like(event)
        return -tf.nn.sigmoid_cross_entropy_with_logits(labels=wide, logits=logits)

    def _entropy(self) -> Any:
        return -self.logits * (tf.sigmoid(self.logits) - 1) + tf.nn.softplus(-self.logits)

    def _mean(self) -> Any:
        return tf.identity(self.probs)

    def _variance(self) -> Any:
        return self._mean() * (1.0 - self.probs)

    def _mode(self) -> Any:
        return tf.cast(self.probs > 0.5, self.dtype)


class BernoulliWithSigmoidProbs(Bernoulli):
    """Bernoulli whose probability is ``sigmoid(logits)``."""

    def __init__(
        self, logits: Any = None, dtype: Any = tf.int32, validate_args: bool = False,
        allow_nan_stats: bool = True, name: str = "BernoulliWithSigmoidProbs",
    ) -> None:  # fmt: skip
        super().__init__(
            probs=tf.nn.sigmoid(logits), dtype=dtype, validate_args=validate_args,
            allow_nan_stats=allow_nan_stats, name=name,
        )  # fmt: skip


class _Choice(_Odds):
    """One of the classes in the last dimension."""

    def _batch_shape(self) -> Any:
        return self._logits.shape.with_rank_at_least(1)[:-1]

    def _batch_shape_tensor(self) -> Any:
        return tf.shape(self._logits)[:-1]

    @property
    def event_size(self) -> Any:
        """The number of classes, a tensor."""
        return self._event_size

    def _drawn(self, n: Any, seed: Any) -> Any:
        """Indices of classes, [n, batch…]."""
        flat = tf.reshape(self._logits, [-1, self.event_size])
        drawn = tf.random.multinomial(flat, n, seed=seed)
        whole = tf.concat([[n], self.batch_shape_tensor()], 0)
        return tf.reshape(tf.transpose(drawn), whole)

    def _entropy(self) -> Any:
        return -tf.reduce_sum(tf.nn.log_softmax(self.logits) * self.probs, -1)


class Categorical(_Choice):
    """The index of a class."""

    def __init__(
        self, logits: Any = None, probs: Any = None, dtype: Any = tf.int32,
        validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Categorical",
    ) -> None:  # fmt: skip
        super().__init__(locals(), True, tf.as_dtype(dtype))

    @staticmethod
    def _param_shapes(sample_shape: Any) -> dict[str, Any]:
        return {"logits": tf.convert_to_tensor(sample_shape, dtype=tf.int32)}

    def _sample_n(self, n: Any, seed: Any = None) -> Any:
        return tf.cast(self._drawn(n, seed), self.dtype)

    def _log_prob(self, k: Any) -> Any:
        k = tf.cast(k, tf.int32) if not k.dtype.is_integer else k
        labels, logits = self._broadcast(k, self.logits)
        return -tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)

    def _cdf(self, k: Any) -> Any:
        # TensorFlow's is the probability of less than k, not of at most k.
        labels, probs = self._broadcast(tf.cast(k, tf.int32), self.probs)
        below = tf.cast(tf.sequence_mask(labels, tf.shape(probs)[-1]), probs.dtype)
        return tf.reduce_sum(below * probs, -1)

    def _broadcast(self, k: Any, parameters: Any) -> tuple[Any, Any]:
        """Indices and parameters, wide enough for each other."""
        known = k.shape.is_fully_defined() and parameters.shape[:-1].is_fully_defined()
        if known and k.shape.as_list() == parameters.shape[:-1].as_list():
            return k, parameters
        shape = tf.broadcast_dynamic_shape(tf.shape(k), tf.shape(parameters)[:-1])
        wide = tf.concat([shape, tf.shape(parameters)[-1:]], 0)
        kept = parameters.shape[-1:]
        k, parameters = tf.broadcast_to(k, shape), tf.broadcast_to(parameters, wide)
        if parameters.shape.ndims is not None:
            parameters.set_shape(parameters.shape[:-1].concatenate(kept))
        return k, parameters

    def _mode(self) -> Any:
        return tf.cast(tf.argmax(self.logits, axis=-1), self.dtype)


class OneHotCategorical(_Choice):
    """The indicator vector of a class."""

    def __init__(
        self, logits: Any = None, probs: Any = None, dtype: Any = tf.int32,
        validate_args: bool = False, allow_nan_stats: bool = True,
        name: str = "OneHotCategorical",
    ) -> None:  # fmt: skip
        super().__init__(locals(), True, tf.as_dtype(dtype))

    def _event_shape(self) -> Any:
        return self._logits.shape.with_rank_at_least(1)[-1:]

    def _event_shape_tensor(self) -> Any:
        return tf.shape(self._logits)[-1:]

    def _sample_n(self, n: Any, seed: Any = None) -> Any:
        return tf.one_hot(self._drawn(n, seed), self.event_size, dtype=self.dtype)

    def _log_prob(self, x: Any) -> Any:
        x = tf.cast(x, self.logits.dtype)
        shape = tf.broadcast_dynamic_shape(tf.shape(x), tf.shape(self.logits))
        x, logits = tf.broadcast_to(x, shape), tf.broadcast_to(self.logits, shape)
        return -tf.nn.softmax_cross_entropy_with_logits_v2(labels=x, logits=logits)

    def _mode(self) -> Any:
        best = tf.argmax(self.logits, axis=-1)
        return tf.one_hot(best, self.event_size, dtype=self.dtype)

    def _mean(self) -> Any:
        return tf.identity(self.probs)


def log_combinations(n: Any, counts: Any, name: str = "log_combinations") -> Any:
    """The logarithm of the number of ways to split `n` things into `counts`."""
    with tf.name_scope(name, values=[n, counts]):
        return tf.math.lgamma(n + 1) - tf.reduce_sum(tf.math.lgamma(counts + 1), -1)


class Multinomial(Distribution):
    """How often each class is chosen in `total_count` choices."""

    def __init__(
        self, total_count: Any, logits: Any = None, probs: Any = None, validate_args: bool = False,
        allow_nan_stats: bool = True, name: str = "Multinomial",
    ) -> None:  # fmt: skip
        given = dict(locals())
        with tf.name_scope(name, values=[total_count, logits, probs]) as scope:
            self._total_count = tf.convert_to_tensor(total_count, name="total_count")
            self._logits, self._probs = logits_and_probs(logits, probs, True, validate_args)
            count = tf.cast(self._total_count, self._probs.dtype)
            if validate_args:
                count = checked(count, [tf.assert_non_negative(count)], True)
            self._total_count = count
            self._mean_val = count[..., tf.newaxis] * self._probs
        super().__init__(
            self._probs.dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, given,
            [count, self._logits, self._probs], scope,
        )  # fmt: skip

    @property
    def total_count(self) -> Any:
        """How many choices there are."""
        return self._total_count

    @property
    def logits(self) -> Any:
        """Logarithms of probabilities, up to a constant."""
        return self._logits

    @property
    def probs(self) -> Any:
        """Probabilities of the classes."""
        return self._probs

    def _batch_shape(self) -> Any:
        return self._mean_val.shape.with_rank_at_least(1)[:-1]

    def _batch_shape_tensor(self) -> Any:
        return tf.shape(self._mean_val)[:-1]

    def _event_shape(self) -> Any:
        return self._mean_val.shape.with_rank_at_least(1)[-1:]

    def _event_shape_tensor(self) -> Any:
        return tf.shape(self._mean_val)[-1:]

    def _sample_n(self, n: Any, seed: Any = None) -> Any:
        size = self.event_shape_tensor()[0]
        wide = tf.reshape(self._logits + tf.zeros_like(self._mean_val), [-1, size])
        counts = tf.cast(
            tf.reshape(self._total_count + tf.zeros_like(self._mean_val[..., 0]), [-1]), tf.int32
        )
        most = tf.reduce_max(counts)
        drawn = tf.reshape(
            tf.random.multinomial(wide, n * most, seed=seed), tf.stack([-1, n, most])
        )
        # Choices past the count of a distribution are left out.
        used = tf.sequence_mask(counts, most, dtype=self.dtype)[:, tf.newaxis, :, tf.newaxis]
        found = tf.reduce_sum(tf.one_hot(drawn, size, dtype=self.dtype) * used, 2)
        whole = tf.concat([[n], self.batch_shape_tensor(), self.event_shape_tensor()], 0)
        return tf.reshape(tf.transpose(found, [1, 0, 2]), whole)

    def _log_prob(self, counts: Any) -> Any:
        if self.validate_args:
            total = tf.reduce_sum(counts, -1)
            words = "counts must sum to `self.total_count`"
            fine = [
                tf.assert_non_negative(counts),
                tf.assert_equal(self.total_count, total, message=words),
            ]
            counts = checked(counts, fine, True)
        weights = tf.reduce_sum(counts * tf.nn.log_softmax(self.logits), -1)
        return weights + log_combinations(self.total_count, counts)

    def _mean(self) -> Any:
        return tf.identity(self._mean_val)

    def _covariance(self) -> Any:
        p = self.probs * tf.ones_like(self.total_count)[..., tf.newaxis]
        outer = -tf.matmul(self._mean_val[..., tf.newaxis], p[..., tf.newaxis, :])
        return tf.matrix_set_diag(outer, self._variance())

    def _variance(self) -> Any:
        p = self.probs * tf.ones_like(self.total_count)[..., tf.newaxis]
        return self._mean_val - self._mean_val * p


class DirichletMultinomial(Distribution):
    """Multinomial whose probabilities are drawn from a Dirichlet distribution."""

    def __init__(
        self, total_count: Any, concentration: Any, validate_args: bool = False,
        allow_nan_stats: bool = True, name: str = "DirichletMultinomial",
    ) -> None:  # fmt: skip
        given = dict(locals())
        with tf.name_scope(name, values=[total_count, concentration]) as scope:
            self._concentration = tf.convert_to_tensor(concentration, name="concentration")
            kind = self._concentration.dtype
            self._total_count = tf.cast(total_count, kind)
            self._total = tf.reduce_sum(self._concentration, -1)
        super().__init__(
            kind, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, given,
            [self._total_count, self._concentration], scope,
        )  # fmt: skip

    @property
    def total_count(self) -> Any:
        """How many choices there are."""
        return self._total_count

    @property
    def concentration(self) -> Any:
        """The weights of the Dirichlet distribution."""
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
        shares = tf.random_gamma([n], self._concentration, dtype=self.dtype, seed=seed)
        wide = self._total_count + tf.zeros_like(shares[..., 0])
        return Multinomial(wide, logits=tf.math.log(shares)).sample(seed=seed)

    def _log_prob(self, counts: Any) -> Any:
        ordered = tf.math.lbeta(self._concentration + counts) - tf.math.lbeta(self._concentration)
        return ordered + log_combinations(self._total_count, counts)

    def _mean(self) -> Any:
        share = self._concentration / self._total[..., tf.newaxis]
        return self._total_count[..., tf.newaxis] * share

    def _scale(self) -> Any:
        spread = (self._total + self._total_count) / (1.0 + self._total)
        return tf.sqrt(spread)[..., tf.newaxis]

    def _covariance(self) -> Any:
        x = self._scale() * self._mean()
        each = x / self._total_count[..., tf.newaxis]
        outer = -tf.matmul(x[..., tf.newaxis], each[..., tf.newaxis, :])
        return tf.matrix_set_diag(outer, self._variance())

    def _variance(self) -> Any:
        scale = self._scale()
        x = scale * self._mean()
        return x * (scale - x / self._total_count[..., tf.newaxis])


@RegisterKL(Bernoulli, Bernoulli)
def _bernoullis(a: Any, b: Any, name: str | None = None) -> Any:
    with tf.name_scope(name, "kl_bernoulli_bernoulli"):
        zeros = tf.nn.softplus(b.logits) - tf.nn.softplus(a.logits)
        ones = tf.nn.softplus(-b.logits) - tf.nn.softplus(-a.logits)
        return tf.sigmoid(a.logits) * ones + tf.sigmoid(-a.logits) * zeros


def _choices(a: Any, b: Any, name: str | None = None) -> Any:
    with tf.name_scope(name, "kl_categorical_categorical"):
        logs = tf.nn.log_softmax(a.logits) - tf.nn.log_softmax(b.logits)
        return tf.reduce_sum(tf.nn.softmax(a.logits) * logs, -1)


RegisterKL(Categorical, Categorical)(_choices)
RegisterKL(OneHotCategorical, OneHotCategorical)(_choices)
