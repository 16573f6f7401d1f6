"""Distributions of vectors: normal ones, and others whose parts are independent."""

from __future__ import annotations

import math
from typing import Any

import millrace as tf
from millrace.distributions.distribution import FULLY_REPARAMETERIZED, Distribution
from millrace.distributions.divergence import RegisterKL, kl_divergence


class MultivariateNormalTriL(Distribution):
    """The normal distribution with covariance ``scale_tril · scale_trilᵀ``."""

    def __init__(
        self, loc: Any = None, scale_tril: Any = None, validate_args: bool = False,
        allow_nan_stats: bool = True, name: str = "MultivariateNormalTriL",
    ) -> None:  # fmt: skip
        given = dict(locals())
        if loc is None and scale_tril is None:
            raise ValueError("Must specify one or both of `loc`, `scale`.")
        with tf.name_scope(name, values=[loc, scale_tril]) as scope:
            if scale_tril is None:
                moved = tf.convert_to_tensor(loc, name="loc")
                scale = tf.eye(tf.shape(moved)[-1], dtype=moved.dtype)
            else:
                scale = tf.convert_to_tensor(scale_tril, name="scale_tril")
                scale = tf.matrix_band_part(scale, -1, 0)
                moved = tf.zeros_like(scale[..., 0]) if loc is None else tf.convert_to_tensor(
                    loc, name="loc", dtype=scale.dtype
                )  # fmt: skip
            # Both with the whole batch, so that solving needs no broadcasting.
            self._loc = moved + tf.zeros_like(scale[..., 0])
            self._tril = scale + tf.zeros_like(self._loc)[..., tf.newaxis]
        super().__init__(
            scale.dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, given,
            [self._loc, self._tril], scope,
        )  # fmt: skip

    @property
    def loc(self) -> Any:
        """The mean."""
        return self._loc

    def _batch_shape(self) -> Any:
        return self._loc.shape[:-1]

    def _batch_shape_tensor(self) -> Any:
        return tf.shape(self._loc)[:-1]

    def _event_shape(self) -> Any:
        return self._loc.shape[-1:]

    def _event_shape_tensor(self) -> Any:
        return tf.shape(self._loc)[-1:]

    def _sample_n(self, n: Any, seed: Any = None) -> Any:
        shape = tf.concat([[n], tf.shape(self._loc)], 0)
        drawn = tf.random_normal(shape, dtype=self.dtype, seed=seed)
        return self._loc + self._times_scale(drawn)

    def _times_scale(self, x: Any) -> Any:
        return tf.reduce_sum(self._tril * x[..., tf.newaxis, :], -1)

    def _solved(self, x: Any) -> Any:
        wide = self._tril + tf.zeros_like(x)[..., tf.newaxis]
        return tf.matrix_triangular_solve(wide, x[..., tf.newaxis])[..., 0]

    def _log_determinant(self) -> Any:
        return tf.reduce_sum(tf.math.log(tf.abs(tf.matrix_diag_part(self._tril))), -1)

    def _log_prob(self, x: Any) -> Any:
        size = tf.cast(tf.shape(self._loc)[-1], self.dtype)
        far = tf.reduce_sum(tf.square(self._solved(x - self._loc)), -1)
        return -0.5 * (far + size * math.log(2 * math.pi)) - self._log_determinant()

    def _entropy(self) -> Any:
        size = tf.cast(tf.shape(self._loc)[-1], self.dtype)
        return 0.5 * size * (1 + math.log(2 * math.pi)) + self._log_determinant()

    def _mean(self) -> Any:
        return tf.identity(self._loc)

    _mode = _mean

    def _covariance(self) -> Any:
        return tf.matmul(self._tril, self._tril, transpose_b=True)

    def _variance(self) -> Any:
        return tf.reduce_sum(tf.square(self._tril), -1)


class MultivariateNormalFullCovariance(MultivariateNormalTriL):
    """The normal distribution with a covariance matrix."""

    def __init__(
        self, loc: Any = None, covariance_matrix: Any = None, validate_args: bool = False,
        allow_nan_stats: bool = True, name: str = "MultivariateNormalFullCovariance",
    ) -> None:  # fmt: skip
        tril = None if covariance_matrix is None else tf.cholesky(covariance_matrix)
        super().__init__(loc, tril, validate_args, allow_nan_stats, name)


class MultivariateNormalDiag(MultivariateNormalTriL):
    """The normal distribution with standard deviations `scale_diag · scale_identity_multiplier`."""

    def __init__(
        self, loc: Any = None, scale_diag: Any = None, scale_identity_multiplier: Any = None,
        validate_args: bool = False, allow_nan_stats: bool = True,
        name: str = "MultivariateNormalDiag",
    ) -> None:  # fmt: skip
        given = dict(locals())
        if loc is None and scale_diag is None:
            raise ValueError("Must specify one or both of `loc`, `scale_diag`.")
        with tf.name_scope(name, values=[loc, scale_diag]) as scope:
            moved = None if loc is None else tf.convert_to_tensor(loc, name="loc")
            if scale_diag is None:
                diag = tf.ones_like(moved)
            else:
                kind = None if moved is None else moved.dtype
                diag = tf.convert_to_tensor(scale_diag, name="scale_diag", preferred_dtype=kind)
            if scale_identity_multiplier is not None:
                factor = tf.convert_to_tensor(scale_identity_multiplier, dtype=diag.dtype)
                extra = factor[..., tf.newaxis]
                diag = diag * extra if scale_diag is None else diag + extra
            moved = tf.zeros_like(diag) if moved is None else moved
            self._loc = moved + tf.zeros_like(diag)
            self._diag = diag + tf.zeros_like(self._loc)
            self._given_diag = diag  # TensorFlow's spread has not always the whole batch
        Distribution.__init__(
            self, diag.dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, given,
            [self._loc, self._diag], scope,
        )  # fmt: skip

    def _times_scale(self, x: Any) -> Any:
        return self._diag * x

    def _solved(self, x: Any) -> Any:
        return x / self._diag

    def _log_determinant(self) -> Any:
        return tf.reduce_sum(tf.math.log(tf.abs(self._diag)), -1)

    def _covariance(self) -> Any:
        return tf.matrix_diag(tf.square(self._given_diag))

    def _variance(self) -> Any:
        return tf.square(self._given_diag)

    def _stddev(self) -> Any:
        return tf.abs(self._given_diag)


class MultivariateNormalDiagWithSoftplusScale(MultivariateNormalDiag):
    """`MultivariateNormalDiag` whose standard deviations are ``softplus(scale_diag)``."""

    def __init__(
        self, loc: Any, scale_diag: Any, validate_args: bool = False, allow_nan_stats: bool = True,
        name: str = "MultivariateNormalDiagWithSoftplusScale",
    ) -> None:  # fmt: skip
        super().__init__(
            loc, tf.nn.softplus(scale_diag), validate_args=validate_args,
            allow_nan_stats=allow_nan_stats, name=name,
        )  # fmt: skip


class Independent(Distribution):
    """Another distribution, the last dimensions of whose batch are parts of one event."""

    def __init__(
        self, distribution: Any, reinterpreted_batch_ndims: int | None = None,
        validate_args: bool = False, name: str | None = None,
    ) -> None:  # fmt: skip
        given = dict(locals())
        self._distribution = distribution
        rank = distribution.batch_shape.ndims
        if reinterpreted_batch_ndims is None:
            reinterpreted_batch_ndims = max(0, rank - 1)
        if reinterpreted_batch_ndims > rank:
            raise ValueError(
                f"reinterpreted_batch_ndims({reinterpreted_batch_ndims}) cannot exceed "
                f"distribution.batch_ndims({rank})"
            )
        self._parts = reinterpreted_batch_ndims
        with tf.name_scope(name or f"Independent{distribution.name}") as scope:
            pass
        super().__init__(
            distribution.dtype, distribution.reparameterization_type, validate_args,
            distribution.allow_nan_stats, given, None, scope,
        )  # fmt: skip

    @property
    def distribution(self) -> Any:
        """The other one."""
        return self._distribution

    @property
    def reinterpreted_batch_ndims(self) -> int:
        """How many dimensions are parts of an event."""
        return self._parts

    def _batch_shape(self) -> Any:
        shape = self._distribution.batch_shape
        return shape[: shape.ndims - self._parts]

    def _batch_shape_tensor(self) -> Any:
        shape = self._distribution.batch_shape_tensor()
        return shape[: tf.shape(shape)[0] - self._parts]

    def _event_shape(self) -> Any:
        shape = self._distribution.batch_shape
        own = shape[shape.ndims - self._parts :]
        return own.concatenate(self._distribution.event_shape)

    def _event_shape_tensor(self) -> Any:
        shape = self._distribution.batch_shape_tensor()
        own = shape[tf.shape(shape)[0] - self._parts :]
        return tf.concat([own, self._distribution.event_shape_tensor()], 0)

    def _sample_n(self, n: Any, seed: Any = None) -> Any:
        return self._distribution.sample(n, seed=seed)

    def _summed(self, value: Any) -> Any:
        return tf.reduce_sum(value, list(range(-self._parts, 0))) if self._parts else value

    def _log_prob(self, x: Any) -> Any:
        return self._summed(self._distribution.log_prob(x))

    def _entropy(self) -> Any:
        return self._summed(self._distribution.entropy())

    def _mean(self) -> Any:
        return self._distribution.mean()

    def _variance(self) -> Any:
        return self._distribution.variance()

    def _stddev(self) -> Any:
        return self._distribution.stddev()

    def _mode(self) -> Any:
        return self._distribution.mode()


@RegisterKL(Independent, Independent)
def _independents(a: Any, b: Any, name: str | None = None) -> Any:
    with tf.name_scope(name, "kl_independent"):
        return a._summed(kl_divergence(a.distribution, b.distribution))


@RegisterKL(MultivariateNormalTriL, MultivariateNormalTriL)
def _normals(a: Any, b: Any, name: str | None = None) -> Any:
    def matrix(of: Any) -> Any:
        return tf.matrix_diag(of._diag) if isinstance(of, MultivariateNormalDiag) else of._tril

    with tf.name_scope(name, "kl_mvn"):
        size = tf.cast(tf.shape(a.loc)[-1], a.dtype)
        spread = tf.matrix_triangular_solve(matrix(b), matrix(a))
        moved = tf.reduce_sum(tf.square(b._solved(b.loc - a.loc)), -1)
        volume = b._log_determinant() - a._log_determinant()
        return volume + 0.5 * (tf.reduce_sum(tf.square(spread), [-2, -1]) + moved - size)
