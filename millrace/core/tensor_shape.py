"""Static shapes with unknown parts: `Dimension` and `TensorShape`, with TF1's semantics.

Invariants: a shape holds a tuple of `int | None` per dimension, or None when even the rank is
unknown; a TensorShape never changes after construction; `Dimension` objects are made only when
somebody asks for one. Shape rules read `shape.sizes`, which costs an attribute access.

Must not: know about tensors or ops. TF1's three-valued comparisons are kept: comparing with an
unknown dimension answers None.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from tensorboard.compat.proto import tensor_shape_pb2


def _as_size(value: Any) -> int | None:
    """Converts a dimension given in any accepted form to its size."""
    if value is None:
        return None
    if isinstance(value, Dimension):
        return value._value
    if isinstance(value, int):
        size = value
    else:
        try:
            size = int(value.__index__())
        except AttributeError:
            raise TypeError(
                "Dimension value must be integer or None or have an __index__ method, got value "
                f"'{value!r}' with type '{type(value)!r}'"
            ) from None
    if size < 0:
        raise ValueError(f"Dimension {size} must be >= 0")
    return size


class Dimension:
    """The size of one dimension, which may be unknown (None).

    Arithmetic with an unknown operand gives an unknown Dimension; comparison with one gives None.
    Like TF's, it is not hashable.
    """

    __slots__ = ("_value",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Any) -> None:
        """Makes a Dimension from an int, None, a Dimension, or anything with `__index__`."""
        self._value = _as_size(value)

    @property
    def value(self) -> int | None:
        """The size, or None if it is unknown."""
        return self._value

    def __repr__(self) -> str:
        return f"Dimension({self._value!r})"

    def __str__(self) -> str:
        return "?" if self._value is None else str(self._value)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __int__(self) -> int:
        return self._value  # type: ignore[return-value]  # Python itself refuses None here

    def __index__(self) -> int:
        return self._value  # type: ignore[return-value]  # as above

    def __reduce__(self) -> tuple[Any, ...]:
        return Dimension, (self._value,)

    def is_compatible_with(self, other: Any) -> bool:
        """Whether both could be the same size: equal, or one of them unknown."""
        size = _as_size(other)
        return self._value is None or size is None or self._value == size

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raises ValueError if `other` cannot be the same size."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Dimensions {self} and {other} are not compatible")

    def merge_with(self, other: Any) -> Dimension:
        """Returns the Dimension that knows what either knows.

        Raises:
            ValueError: If both are known and differ.
        """
        self.assert_is_compatible_with(other)
        return Dimension(other if self._value is None else self._value)

    # An operand that is no dimension: TF lets Python report it for `dimension op x`
    # (NotImplemented), but raises from the conversion itself for `x op dimension` and orderings.

    def __eq__(self, other: object) -> Any:
        try:
            size = _as_size(other)
        except (TypeError, ValueError):
            return NotImplemented
        if self._value is None or size is None:
            return None
        return self._value == size

    def __ne__(self, other: object) -> Any:
        try:
            size = _as_size(other)
        except (TypeError, ValueError):
            return NotImplemented
        if self._value is None or size is None:
            return None
        return self._value != size

    def __lt__(self, other: Any) -> bool | None:
        size = _as_size(other)
        return None if self._value is None or size is None else self._value < size

    def __le__(self, other: Any) -> bool | None:
        size = _as_size(other)
        return None if self._value is None or size is None else self._value <= size

    def __gt__(self, other: Any) -> bool | None:
        size = _as_size(other)
        return None if self._value is None or size is None else self._value > size

    def __ge__(self, other: Any) -> bool | None:
        size = _as_size(other)
        return None if self._value is None or size is None else self._value >= size

    def __add__(self, other: Any) -> Dimension:
        try:
            size = _as_size(other)
        except (TypeError, ValueError):
            return NotImplemented
        return Dimension(None if self._value is None or size is None else self._value + size)

    def __radd__(self, other: Any) -> Dimension:
        return self.__add__(other)

    def __sub__(self, other: Any) -> Dimension:
        try:
            size = _as_size(other)
        except (TypeError, ValueError):
            return NotImplemented
        return Dimension(None if self._value is None or size is None else self._value - size)

    def __rsub__(self, other: Any) -> Dimension:
        size = _as_size(other)
        return Dimension(None if self._value is None or size is None else size - self._value)

    def __mul__(self, other: Any) -> Dimension:
        try:
            size = _as_size(other)
        except (TypeError, ValueError):
            return NotImplemented
        return Dimension(None if self._value is None or size is None else self._value * size)

    def __rmul__(self, other: Any) -> Dimension:
        return self.__mul__(other)

    def __floordiv__(self, other: Any) -> Dimension:
        try:
            size = _as_size(other)
        except (TypeError, ValueError):
            return NotImplemented
        return Dimension(None if self._value is None or size is None else self._value // size)

    def __rfloordiv__(self, other: Any) -> Dimension:
        size = _as_size(other)
        return Dimension(None if self._value is None or size is None else size // self._value)

    # Python 2's name for `/`; TF keeps it callable.
    __div__ = __floordiv__

    def __truediv__(self, other: Any) -> NoReturn:
        raise TypeError(
            f"unsupported operand type(s) for /: 'Dimension' and '{type(other).__name__}', "
            "please use // instead"
        )

    def __rtruediv__(self, other: Any) -> NoReturn:
        raise TypeError(
            f"unsupported operand type(s) for /: '{type(other).__name__}' and 'Dimension', "
            "please use // instead"
        )

    def __mod__(self, other: Any) -> Dimension:
        size = _as_size(other)
        return Dimension(None if self._value is None or size is None else self._value % size)

    def __rmod__(self, other: Any) -> Dimension:
        return Dimension(other) % self


class TensorShape:
    """The static shape of a tensor: fully known, partly known, or of unknown rank.

    Equality is by what is known: `TensorShape([None, 3]) == TensorShape([None, 3])` is True, and
    so is the comparison of two shapes of unknown rank. Ask `is_compatible_with` whether two
    shapes could be the same at run time.
    """

    __slots__ = ("_dims",)

    _dims: tuple[int | None, ...] | None

    def __init__(self, dims: Any) -> None:
        """Makes a shape.

        Args:
            dims: None (unknown rank), a TensorShape or TensorShapeProto, an iterable of
                dimensions (int, None, Dimension, anything with `__index__`), or a single
                dimension, which makes a vector.

        Raises:
            TypeError: If something is no dimension.
            ValueError: If a dimension is negative.
        """
        if isinstance(dims, (tuple, list)):
            self._dims = tuple(
                [d if d is None or (d.__class__ is int and d >= 0) else _as_size(d) for d in dims]
            )
        elif dims is None:
            self._dims = None
        elif isinstance(dims, TensorShape):
            self._dims = dims._dims
        elif isinstance(dims, tensor_shape_pb2.TensorShapeProto):
            if dims.unknown_rank:
                self._dims = None
            else:
                self._dims = tuple([None if d.size == -1 else _as_size(d.size) for d in dims.dim])
        else:
            try:
                iterator = iter(dims)
            except TypeError:
                self._dims = (_as_size(dims),)
            else:
                self._dims = _sizes_of_iterable(dims, iterator)

    @classmethod
    def of_sizes(cls, sizes: tuple[int | None, ...] | None) -> TensorShape:
        """Makes a shape from a tuple already known to be valid, without looking at it."""
        shape = cls.__new__(cls)
        shape._dims = sizes
        return shape

    @property
    def sizes(self) -> tuple[int | None, ...] | None:
        """The sizes as a tuple with None for unknown ones; None if the rank is unknown."""
        return self._dims

    @property
    def rank(self) -> int | None:
        """The number of dimensions, or None."""
        return None if self._dims is None else len(self._dims)

    @property
    def ndims(self) -> int | None:
        """The same as `rank` (TF's older name)."""
        return None if self._dims is None else len(self._dims)

    @property
    def dims(self) -> list[Dimension] | None:
        """A list of new Dimension objects, or None if the rank is unknown."""
        return None if self._dims is None else [Dimension(size) for size in self._dims]

    def __repr__(self) -> str:
        return f"TensorShape({self.dims!r})"

    def __str__(self) -> str:
        if self._dims is None:
            return "<unknown>"
        text = ["?" if size is None else str(size) for size in self._dims]
        return f"({text[0]},)" if len(text) == 1 else f"({', '.join(text)})"

    def __bool__(self) -> bool:
        """True if the rank is known: also for the shape of a scalar."""
        return self._dims is not None

    def __len__(self) -> int:
        if self._dims is None:
            raise ValueError("Cannot take the length of shape with unknown rank.")
        return len(self._dims)

    def __iter__(self) -> Iterator[Dimension]:
        if self._dims is None:
            raise ValueError("Cannot iterate over a shape with unknown rank.")
        return iter([Dimension(size) for size in self._dims])

    def __getitem__(self, key: Any) -> Any:
        """Returns a Dimension for an index, a TensorShape for a slice.

        Raises:
            ValueError: If the rank is unknown and the slice has a step.
        """
        if self._dims is not None:
            if isinstance(key, slice):
                return TensorShape.of_sizes(self._dims[key])
            return Dimension(self._dims[key])
        if not isinstance(key, slice):
            return Dimension(None)
        if key.step is not None:
            raise ValueError("Steps are not yet handled")
        start = 0 if key.start is None else key.start
        stop = key.stop
        # The number of dimensions is known only if both ends count from the front.
        if stop is None or start < 0 or stop < 0:
            return unknown_shape()
        return unknown_shape(max(stop - start, 0))

    def __eq__(self, other: object) -> bool:
        if other.__class__ is TensorShape:
            return self._dims == other._dims
        try:
            return self._dims == as_shape(other)._dims
        except TypeError:
            return NotImplemented

    def __hash__(self) -> int:
        return hash(self._dims)

    def __reduce__(self) -> tuple[Any, ...]:
        return TensorShape, (self._dims,)

    def __add__(self, other: Any) -> TensorShape:
        return self.concatenate(other)

    def __radd__(self, other: Any) -> TensorShape:
        return as_shape(other).concatenate(self)

    def num_elements(self) -> int | None:
        """The number of elements, or None unless every dimension is known."""
        if self._dims is None or None in self._dims:
            return None
        return math.prod(self._dims)  # type: ignore[arg-type]  # no None is left

    def as_list(self) -> list[int | None]:
        """The sizes as a list with None for unknown ones.

        Raises:
            ValueError: If the rank is unknown.
        """
        if self._dims is None:
            raise ValueError("as_list() is not defined on an unknown TensorShape.")
        return list(self._dims)

    def as_proto(self) -> tensor_shape_pb2.TensorShapeProto:
        """The shape as a TensorShapeProto, where -1 stands for an unknown size."""
        proto = tensor_shape_pb2.TensorShapeProto()
        if self._dims is None:
            proto.unknown_rank = True
        else:
            for size in self._dims:
                proto.dim.add().size = -1 if size is None else size
        return proto

    def is_fully_defined(self) -> bool:
        """Whether every dimension is known."""
        return self._dims is not None and None not in self._dims

    def is_compatible_with(self, other: Any) -> bool:
        """Whether some fully known shape fits both."""
        sizes = as_shape(other)._dims
        if self._dims is None or sizes is None:
            return True
        if len(self._dims) != len(sizes):
            return False
        for a, b in zip(self._dims, sizes, strict=True):
            if a != b and a is not None and b is not None:
                return False
        return True

    def is_subtype_of(self, other: Any) -> bool:
        """Whether every tensor of this shape is also one of shape `other`."""
        if not isinstance(other, TensorShape):
            return False
        if other._dims is None:
            return True
        if self._dims is None or len(self._dims) != len(other._dims):
            return False
        return all(b is None or a == b for a, b in zip(self._dims, other._dims, strict=True))

    def merge_with(self, other: Any) -> TensorShape:
        """Returns the shape that knows what either knows.

        Raises:
            ValueError: If the two are not compatible.
        """
        shape = as_shape(other)
        if self._dims is None:
            return shape
        if shape._dims is None or self._dims == shape._dims:
            return self
        if not self.is_compatible_with(shape):
            raise ValueError(f"Shapes {self} and {shape} are not compatible")
        return TensorShape.of_sizes(
            tuple([b if a is None else a for a, b in zip(self._dims, shape._dims, strict=True)])
        )

    def most_specific_compatible_shape(self, other: Any) -> TensorShape:
        """Returns the shape that keeps only what both agree on."""
        sizes = as_shape(other)._dims
        if self._dims is None or sizes is None or len(self._dims) != len(sizes):
            return unknown_shape()
        return TensorShape.of_sizes(
            tuple([a if a == b else None for a, b in zip(self._dims, sizes, strict=True)])
        )

    def concatenate(self, other: Any) -> TensorShape:
        """Returns the dimensions of both in a row; of unknown rank if either is."""
        other = as_shape(other)
        if self._dims is None or other._dims is None:
            return unknown_shape()
        return TensorShape.of_sizes(self._dims + other._dims)

    def with_rank(self, rank: Any) -> TensorShape:
        """Returns this shape with the given rank made known.

        Raises:
            ValueError: If the rank is known and another.
        """
        self.assert_has_rank(rank)
        return unknown_shape(rank) if self._dims is None else self

    def with_rank_at_least(self, rank: Any) -> TensorShape:
        """Returns this shape; raises ValueError if its rank is known and smaller."""
        if self._dims is not None and len(self._dims) < rank:
            raise ValueError(f"Shape {self} must have rank at least {int(rank)}")
        return self

    def with_rank_at_most(self, rank: Any) -> TensorShape:
        """Returns this shape; raises ValueError if its rank is known and larger."""
        if self._dims is not None and len(self._dims) > rank:
            raise ValueError(f"Shape {self} must have rank at most {int(rank)}")
        return self

    def assert_has_rank(self, rank: Any) -> None:
        """Raises ValueError if the rank is known and not `rank`."""
        if self._dims is not None and len(self._dims) != rank:
            raise ValueError(f"Shape {self} must have rank {int(rank)}")

    def assert_same_rank(self, other: Any) -> None:
        """Raises ValueError if both ranks are known and differ."""
        other = as_shape(other)
        if self._dims is None or other._dims is None:
            return
        if len(self._dims) != len(other._dims):
            raise ValueError(f"Shapes {self} and {other} must have the same rank")

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raises ValueError if no shape fits both."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {as_shape(other)} are incompatible")

    def assert_is_fully_defined(self) -> None:
        """Raises ValueError if any dimension is unknown."""
        if not self.is_fully_defined():
            raise ValueError(f"Shape {self} is not fully defined")


def _sizes_of_iterable(dims: Any, iterator: Iterable[Any]) -> tuple[int | None, ...]:
    sizes = []
    for item in iterator:
        try:
            sizes.append(_as_size(item))
        except TypeError as error:
            raise TypeError(
                f"Failed to convert {dims!r} to a shape: {item!r} is not a dimension. A shape is "
                "one dimension (10) or an iterable of dimensions ([1, 10, None])."
            ) from error
    return tuple(sizes)


_UNKNOWN = TensorShape(None)
_SCALAR = TensorShape(())


def as_dimension(value: Any) -> Dimension:
    """Converts an int, None or Dimension to a Dimension."""
    return value if isinstance(value, Dimension) else Dimension(value)


def dimension_value(dimension: Any) -> Any:
    """Returns the size of a Dimension; hands an int or None back."""
    return dimension._value if isinstance(dimension, Dimension) else dimension


def dimension_at_index(shape: TensorShape, index: int) -> Dimension:
    """Returns `shape[index]`, which is an unknown Dimension if the rank is unknown."""
    dimension: Dimension = shape[index]
    return dimension


def as_shape(shape: Any) -> TensorShape:
    """Converts anything that TensorShape takes; hands a TensorShape back as it is."""
    return shape if isinstance(shape, TensorShape) else TensorShape(shape)


def unknown_shape(ndims: Any = None, rank: Any = None) -> TensorShape:
    """Returns a shape of unknown sizes, with the given rank if there is one."""
    count = rank if ndims is None else ndims
    return _UNKNOWN if count is None else TensorShape.of_sizes((None,) * int(count))


def scalar() -> TensorShape:
    """Returns the shape of a scalar."""
    return _SCALAR


def vector(length: Any) -> TensorShape:
    """Returns the shape of a vector; `length` may be None."""
    return TensorShape((length,))


def matrix(rows: Any, cols: Any) -> TensorShape:
    """Returns the shape of a matrix; each size may be None."""
    return TensorShape((rows, cols))


def merge_shapes(x: TensorShape, y: TensorShape) -> TensorShape:
    """What two shapes that must be one say together.

    Raises:
      ValueError: They contradict each other; in TensorFlow's words for ops.
    """
    a, b = x.sizes, y.sizes
    if a is None or b is None:
        return y if a is None else x
    if len(a) != len(b):
        raise ValueError(f"Shapes must be equal rank, but are {len(a)} and {len(b)}")
    for i, (m, n) in enumerate(zip(a, b, strict=True)):
        if m is not None and n is not None and m != n:
            texts = (str(s.as_list()).replace("None", "?").replace(" ", "") for s in (x, y))
            raise ValueError(
                f"Dimension {i} in both shapes must be equal, but are {m} and {n}. "
                f"Shapes are {' and '.join(texts)}."
            )
    return TensorShape([n if m is None else m for m, n in zip(a, b, strict=True)])
