"""`tf.TensorSpec` and `tf.SparseTensorSpec`: shape and type of a tensor to come."""

from __future__ import annotations

from typing import Any

from millrace.core.dtypes import DType, as_dtype
from millrace.core.dtypes import float32 as _float32
from millrace.core.dtypes import int64 as _int64
from millrace.core.tensor_shape import TensorShape, as_shape


class TypeSpec:
    """Base class of descriptions of values."""


class TensorSpec(TypeSpec):
    """Shape, type and name of a tensor."""

    __slots__ = ("_dtype", "_name", "_shape")

    def __init__(self, shape: Any, dtype: Any = _float32, name: str | None = None) -> None:
        self._shape = as_shape(shape)
        self._dtype = as_dtype(dtype)
        self._name = name

    @property
    def shape(self) -> TensorShape:
        """The shape, as far as it is known."""
        return self._shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._dtype

    @property
    def name(self) -> str | None:
        """The name, or None."""
        return self._name

    @classmethod
    def from_spec(cls, spec: Any, name: str | None = None) -> TensorSpec:
        """A copy, with another name when one is given."""
        return cls(spec.shape, spec.dtype, name or spec.name)

    @classmethod
    def from_tensor(cls, tensor: Any, name: str | None = None) -> TensorSpec:
        """The description of a tensor or an array."""
        own = getattr(getattr(tensor, "op", None), "name", None)
        return cls(tensor.shape, tensor.dtype, name or own)

    def is_compatible_with(self, spec_or_tensor: Any) -> bool:
        """Whether a tensor (or what a spec describes) fits."""
        return self._dtype.is_compatible_with(
            as_dtype(spec_or_tensor.dtype)
        ) and self._shape.is_compatible_with(as_shape(spec_or_tensor.shape))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TensorSpec)
            and str(self._shape) == str(other._shape)
            and self._dtype == other._dtype
            and self._name == other._name
        )

    def __hash__(self) -> int:
        return hash((str(self._shape), self._dtype))

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self._shape}, dtype={self._dtype!r}, name={self._name!r})"


class SparseTensorSpec(TypeSpec):
    """Dense shape and type of a SparseTensor."""

    __slots__ = ("_dtype", "_shape")

    def __init__(self, shape: Any = None, dtype: Any = _float32) -> None:
        self._shape = as_shape(shape)
        self._dtype = as_dtype(dtype)

    @property
    def shape(self) -> TensorShape:
        """The dense shape, as far as it is known."""
        return self._shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._dtype

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, SparseTensorSpec)
            and str(self._shape) == str(other._shape)
            and self._dtype == other._dtype
        )

    def __hash__(self) -> int:
        return hash((str(self._shape), self._dtype))

    def __repr__(self) -> str:
        return f"SparseTensorSpec({self._shape}, {self._dtype!r})"


class RaggedTensorSpec(TypeSpec):
    """Shape, type and number of ragged dimensions of a RaggedTensor."""

    __slots__ = ("_dtype", "_ragged_rank", "_row_splits_dtype", "_shape")

    def __init__(
        self,
        shape: Any = None,
        dtype: Any = _float32,
        ragged_rank: int | None = None,
        row_splits_dtype: Any = _int64,
    ) -> None:
        self._shape = as_shape(shape)
        self._dtype = as_dtype(dtype)
        self._row_splits_dtype = as_dtype(row_splits_dtype)
        rank = self._shape.ndims
        if ragged_rank is None:
            if rank is None:
                raise ValueError("Must specify ragged_rank or a shape with a known rank.")
            ragged_rank = rank - 1
        if rank is not None and ragged_rank >= rank:
            raise ValueError(f"ragged_rank {ragged_rank} must be less than rank {rank}")
        self._ragged_rank = ragged_rank

    @property
    def shape(self) -> TensorShape:
        """The shape, with None for ragged dimensions."""
        return self._shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._dtype

    @property
    def ragged_rank(self) -> int:
        """How many dimensions are ragged."""
        return self._ragged_rank

    @property
    def row_splits_dtype(self) -> DType:
        """The type of the splits."""
        return self._row_splits_dtype

    def _key(self) -> tuple[Any, ...]:
        return (str(self._shape), self._dtype, self._ragged_rank, self._row_splits_dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RaggedTensorSpec) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return (
            f"RaggedTensorSpec({self._shape}, {self._dtype!r}, {self._ragged_rank}, "
            f"{self._row_splits_dtype!r})"
        )
