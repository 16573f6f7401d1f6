"""Initial values of variables: objects that are called with a shape.

``initializer(shape, dtype=None, partition_info=None)`` gives a tensor. `partition_info` tells
which part of a larger variable it is for, so that what depends on the size of the whole does
not change when a partitioner cuts it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape
from millrace.graph.tensor import Tensor
from millrace.ops.array import constant
from millrace.ops.array import diag as array_diag
from millrace.ops.array import fill as array_fill
from millrace.ops.array import layout as array_layout
from millrace.ops.array import shape as array_shape
from millrace.ops.array import slicing as array_slicing
from millrace.ops.linalg import matrix_factorization
from millrace.ops.math import elementwise
from millrace.ops.random import random

__all__ = [
    "constant_initializer",
    "glorot_normal_initializer",
    "glorot_uniform_initializer",
    "ones_initializer",
    "orthogonal_initializer",
    "random_normal_initializer",
    "random_uniform_initializer",
    "truncated_normal_initializer",
    "uniform_unit_scaling_initializer",
    "variance_scaling_initializer",
    "zeros_initializer",
]

#: Standard deviation of a normal distribution that is cut off at two of its own.
_TRUNCATED_STDDEV = 0.87962566103423978


class Initializer:
    """What all initialisers are."""

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        """A tensor of the given shape.

        Args:
          shape: The shape.
          dtype: Its type; the one that the initialiser was made with when None.
          partition_info: Which part of a larger variable this is, or None.
        """
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The initialiser that `get_config` described."""
        return cls(**config)


class Zeros(Initializer):
    """Zeros."""

    def __init__(self, dtype: Any = dtypes.float32) -> None:
        self.dtype = dtypes.as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        """A tensor of zeros."""
        return array_fill.zeros(shape, self.dtype if dtype is None else dtype)

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {"dtype": self.dtype.name}


class Ones(Initializer):
    """Ones."""

    def __init__(self, dtype: Any = dtypes.float32) -> None:
        self.dtype = dtypes.as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        """A tensor of ones."""
        return array_fill.ones(shape, self.dtype if dtype is None else dtype)

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {"dtype": self.dtype.name}


class Constant(Initializer):
    """A given value, or list of values that fill the shape row by row."""

    def __init__(
        self, value: Any = 0, dtype: Any = dtypes.float32, verify_shape: bool = False
    ) -> None:
        if not (np.isscalar(value) or isinstance(value, list | tuple | np.ndarray)):
            raise TypeError(
                f"Invalid type for initial value: {type(value)} (expected Python scalar, list or "
                "tuple of values, or numpy.ndarray)."
            )
        self.value = value
        self.dtype = dtypes.as_dtype(dtype)
        self._verify_shape = verify_shape

    def __call__(
        self,
        shape: Any,
        dtype: Any = None,
        partition_info: Any = None,
        verify_shape: bool | None = None,
    ) -> Tensor:
        """A constant of the given shape."""
        return constant.constant(
            self.value,
            dtype=self.dtype if dtype is None else dtype,
            shape=shape,
            verify_shape=self._verify_shape if verify_shape is None else verify_shape,
        )

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {"value": self.value, "dtype": self.dtype.name}


class RandomUniform(Initializer):
    """Uniformly from ``[minval, maxval)``."""

    def __init__(
        self,
        minval: Any = 0,
        maxval: Any = None,
        seed: int | None = None,
        dtype: Any = dtypes.float32,
    ) -> None:
        self.minval = minval
        self.maxval = maxval
        self.seed = seed
        self.dtype = dtypes.as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        """Random values."""
        kind = self.dtype if dtype is None else dtype
        return random.random_uniform(shape, self.minval, self.maxval, kind, seed=self.seed)

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {
            "minval": self.minval,
            "maxval": self.maxval,
            "seed": self.seed,
            "dtype": self.dtype.name,
        }


class _Normal(Initializer):
    def __init__(
        self,
        mean: Any = 0.0,
        stddev: Any = 1.0,
        seed: int | None = None,
        dtype: Any = dtypes.float32,
    ) -> None:
        self.mean = mean
        self.stddev = stddev
        self.seed = seed
        self.dtype = _floating(dtype)

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {
            "mean": self.mean,
            "stddev": self.stddev,
            "seed": self.seed,
            "dtype": self.dtype.name,
        }


class RandomNormal(_Normal):
    """From a normal distribution."""

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        """Random values."""
        kind = self.dtype if dtype is None else dtype
        return random.random_normal(shape, self.mean, self.stddev, kind, seed=self.seed)


class TruncatedNormal(_Normal):
    """From a normal distribution, without what is two standard deviations from the mean."""

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        """Random values."""
        kind = self.dtype if dtype is None else dtype
        return random.truncated_normal(shape, self.mean, self.stddev, kind, seed=self.seed)


class UniformUnitScaling(Initializer):
    """Uniform, scaled so that a layer keeps the variance of its input.

    ``factor * sqrt(3 / n)`` is the limit, with n the product of all but the last dimension.
    """

    def __init__(
        self, factor: float = 1.0, seed: int | None = None, dtype: Any = dtypes.float32
    ) -> None:
        self.factor = factor
        self.seed = seed
        self.dtype = _floating(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        """Random values."""
        kind = self.dtype if dtype is None else dtype
        inputs = max(1.0, math.prod(_whole_shape(shape, partition_info)[:-1]))
        limit = math.sqrt(3 / inputs) * self.factor
        return random.random_uniform(shape, -limit, limit, kind, seed=self.seed)

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {"factor": self.factor, "seed": self.seed, "dtype": self.dtype.name}


class VarianceScaling(Initializer):
    """Random, with a variance of ``scale / n``.

    n is the number of input units (``fan_in``), of output units (``fan_out``), or the mean
    of both (``fan_avg``). `distribution` is ``truncated_normal`` (or ``normal``),
    ``untruncated_normal`` or ``uniform``.
    """

    def __init__(
        self,
        scale: float = 1.0,
        mode: str = "fan_in",
        distribution: str = "truncated_normal",
        seed: int | None = None,
        dtype: Any = dtypes.float32,
    ) -> None:
        if scale <= 0.0:
            raise ValueError("`scale` must be positive float.")
        if mode not in ("fan_in", "fan_out", "fan_avg"):
            raise ValueError(f"Invalid `mode` argument: {mode}")
        distribution = distribution.lower()
        if distribution not in ("normal", "uniform", "truncated_normal", "untruncated_normal"):
            raise ValueError(f"Invalid `distribution` argument: {distribution}")
        self.scale = scale
        self.mode = mode
        self.distribution = distribution
        self.seed = seed
        self.dtype = _floating(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        """Random values."""
        kind = self.dtype if dtype is None else dtype
        fan_in, fan_out = compute_fans(_whole_shape(shape, partition_info))
        fan = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2.0}
        variance = self.scale / max(1.0, fan[self.mode])
        if self.distribution == "uniform":
            limit = math.sqrt(3.0 * variance)
            return random.random_uniform(shape, -limit, limit, kind, seed=self.seed)
        if self.distribution == "untruncated_normal":
            return random.random_normal(shape, 0.0, math.sqrt(variance), kind, seed=self.seed)
        stddev = math.sqrt(variance) / _TRUNCATED_STDDEV
        return random.truncated_normal(shape, 0.0, stddev, kind, seed=self.seed)

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {
            "scale": self.scale,
            "mode": self.mode,
            "distribution": self.distribution,
            "seed": self.seed,
            "dtype": self.dtype.name,
        }


class GlorotUniform(VarianceScaling):
    """Glorot's uniform initialiser, also called Xavier's: scale 1, ``fan_avg``."""

    def __init__(self, seed: int | None = None, dtype: Any = dtypes.float32) -> None:
        super().__init__(1.0, "fan_avg", "uniform", seed, dtype)

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {"seed": self.seed, "dtype": self.dtype.name}


class GlorotNormal(VarianceScaling):
    """Glorot's normal initialiser, also called Xavier's: scale 1, ``fan_avg``."""

    def __init__(self, seed: int | None = None, dtype: Any = dtypes.float32) -> None:
        super().__init__(1.0, "fan_avg", "truncated_normal", seed, dtype)

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {"seed": self.seed, "dtype": self.dtype.name}


class Orthogonal(Initializer):
    """A random orthogonal matrix times `gain`; more dimensions are flattened to two."""

    def __init__(
        self, gain: float = 1.0, seed: int | None = None, dtype: Any = dtypes.float32
    ) -> None:
        self.gain = gain
        self.seed = seed
        self.dtype = _floating(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        """An orthogonal matrix."""
        kind = self.dtype if dtype is None else dtype
        sizes = _sizes(shape)
        if len(sizes) < 2:
            raise ValueError("The tensor to initialize must be at least two-dimensional")
        rows, columns = math.prod(sizes[:-1]), sizes[-1]
        flat = (columns, rows) if rows < columns else (rows, columns)
        gaussian = random.random_normal(flat, dtype=kind, seed=self.seed)
        q, r = matrix_factorization.qr(gaussian, full_matrices=False)
        # Signs that make the result uniformly distributed.
        q = q * elementwise.sign(array_diag.matrix_diag_part(r))
        if rows < columns:
            q = array_layout.matrix_transpose(q)
        result: Tensor = self.gain * array_shape.reshape(q, sizes)
        return result

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {"gain": self.gain, "seed": self.seed, "dtype": self.dtype.name}


class Identity(Initializer):
    """The identity matrix times `gain`."""

    def __init__(self, gain: float = 1.0, dtype: Any = dtypes.float32) -> None:
        self.gain = gain
        self.dtype = _floating(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        """An identity matrix, or a part of one."""
        kind = self.dtype if dtype is None else dtype
        whole = _whole_shape(shape, partition_info)
        if len(whole) != 2:
            raise ValueError("Identity matrix initializer can only be used for 2D matrices.")
        rows, columns = whole
        matrix: Any = array_diag.eye(rows, columns, dtype=kind)
        if partition_info is not None:
            matrix = array_slicing.slice(matrix, partition_info.var_offset, _sizes(shape))
        result: Tensor = self.gain * matrix
        return result

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {"gain": self.gain, "dtype": self.dtype.name}


def lecun_normal(seed: int | None = None) -> VarianceScaling:
    """Normal, scale 1, ``fan_in``."""
    return VarianceScaling(1.0, "fan_in", "truncated_normal", seed)


def lecun_uniform(seed: int | None = None) -> VarianceScaling:
    """Uniform, scale 1, ``fan_in``."""
    return VarianceScaling(1.0, "fan_in", "uniform", seed)


def he_normal(seed: int | None = None) -> VarianceScaling:
    """Normal, scale 2, ``fan_in``: for layers with relu."""
    return VarianceScaling(2.0, "fan_in", "truncated_normal", seed)


def he_uniform(seed: int | None = None) -> VarianceScaling:
    """Uniform, scale 2, ``fan_in``: for layers with relu."""
    return VarianceScaling(2.0, "fan_in", "uniform", seed)


def compute_fans(shape: list[int]) -> tuple[float, float]:
    """The number of input and output units of a layer whose weights have this shape.

    The last two dimensions are input and output; those before are a receptive field.
    """
    if len(shape) < 1:
        return 1.0, 1.0
    if len(shape) == 1:
        return float(shape[0]), float(shape[0])
    field = math.prod(shape[:-2])
    return float(shape[-2] * field), float(shape[-1] * field)


def _sizes(shape: Any) -> list[int]:
    return [int(size or 0) for size in TensorShape(shape).as_list()]


def _whole_shape(shape: Any, partition_info: Any) -> list[int]:
    return _sizes(shape if partition_info is None else partition_info.full_shape)


def _floating(dtype: Any) -> dtypes.DType:
    kind = dtypes.as_dtype(dtype)
    if not kind.is_floating:
        raise ValueError(f"Expected floating point type, got {kind}.")
    return kind


zeros_initializer = Zeros
ones_initializer = Ones
constant_initializer = Constant
random_uniform_initializer = RandomUniform
random_normal_initializer = RandomNormal
truncated_normal_initializer = TruncatedNormal
uniform_unit_scaling_initializer = UniformUnitScaling
variance_scaling_initializer = VarianceScaling
glorot_uniform_initializer = GlorotUniform
glorot_normal_initializer = GlorotNormal
orthogonal_initializer = Orthogonal
identity_initializer = Identity
