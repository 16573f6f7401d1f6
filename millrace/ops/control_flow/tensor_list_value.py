"""The run-time value of a list of tensors: what a loop carries that keeps values for its gradient.

A list is never changed: a push gives a longer list, a pop a shorter one. On the host all lists
that grew from one another share one Python list, of which each sees the first `size` elements, so
that a push costs the same however long the list is. Inside an XLA program a list is a buffer of
fixed capacity with a number of elements; what lies behind them is never read.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from millrace.compiler.xla import jax, jnp, lax
from millrace.platform import limits

#: The shape of an element, with -1 where it is not known; None when the rank is not.
ElementShape = tuple[int, ...] | None


class Collection:
    """A value that is several tensors: of a TensorArray, or of a list of tensors."""

    __slots__ = ()


@jax.tree_util.register_pytree_node_class
class Absent(Collection):
    """No value: what a branch gives in place of what only another branch has."""

    __slots__ = ()

    def tree_flatten(self) -> tuple[Any, Any]:
        """For JAX: nothing is inside."""
        return (), None

    @classmethod
    def tree_unflatten(cls, auxiliary: Any, children: Any) -> Absent:
        """For JAX: the inverse of `tree_flatten`."""
        return ABSENT


ABSENT = Absent()


@jax.tree_util.register_pytree_node_class
class Fixed(Collection):
    """An element that is known while a program is traced, such as a shape, for all iterations."""

    __slots__ = ("value",)

    def __init__(self, value: np.ndarray) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fixed) and np.array_equal(self.value, other.value)

    def __hash__(self) -> int:
        return hash((self.value.shape, self.value.tobytes()))

    def tree_flatten(self) -> tuple[Any, Any]:
        """For JAX: no array of the program is inside."""
        return (), self

    @classmethod
    def tree_unflatten(cls, auxiliary: Fixed, children: Any) -> Fixed:
        """For JAX: the inverse of `tree_flatten`."""
        return auxiliary


@jax.tree_util.register_pytree_node_class
class TensorList(Collection):
    """Elements, and what each must look like.

    Invariant: `buffer` is None, and the elements are the first `size` of `_shared` (None for one
    that was not set); or it holds `capacity` elements (each leaf has one more axis, the first),
    of which `count` are there.
    """

    __slots__ = ("_shared", "buffer", "count", "dtype", "shape", "size")

    def __init__(
        self,
        items: list[Any] | None,
        dtype: Any,
        shape: ElementShape,
        size: int | None = None,
        buffer: Any = None,
        count: Any = None,
    ) -> None:
        self._shared: list[Any] = [] if items is None else items
        self.size = len(self._shared) if size is None else size
        self.dtype = dtype
        self.shape = shape
        self.buffer = buffer
        self.count = count

    @property
    def items(self) -> list[Any]:
        """The elements; of a list of the host only."""
        return self._shared if len(self._shared) == self.size else self._shared[: self.size]

    @property
    def is_set(self) -> bool:
        """Whether all elements of a list of the host are there."""
        return self.buffer is None and all(item is not None for item in self.items)

    def with_items(self, items: list[Any]) -> TensorList:
        """A list like this one, of other elements."""
        return TensorList(items, self.dtype, self.shape)

    def push(self, item: Any) -> TensorList:
        """The list with one more element at its end."""
        if isinstance(self.buffer, Fixed):
            if not isinstance(item, np.ndarray) or Fixed(item) != self.buffer:
                raise ValueError("An element that was the same in each iteration is another one")
            return self.with_buffer(self.buffer, self.count + 1)
        if self.buffer is not None:
            buffer = jax.tree.map(
                lambda rows, leaf: lax.dynamic_update_index_in_dim(
                    rows, jnp.asarray(leaf, rows.dtype), self.count, 0
                ),
                self.buffer,
                item,
            )
            return self.with_buffer(buffer, self.count + 1)
        shared = self._shared
        if len(shared) != self.size:  # Another list has grown from this one.
            shared = shared[: self.size]
        shared.append(item)
        return TensorList(shared, self.dtype, self.shape, self.size + 1)

    def pop(self) -> tuple[TensorList, Any]:
        """The list without its last element, and that element (None if it was not set)."""
        if isinstance(self.buffer, Fixed):
            return self.with_buffer(self.buffer, self.count - 1), self.buffer.value
        if self.buffer is not None:
            last = self.count - 1
            item = jax.tree.map(
                lambda rows: lax.dynamic_index_in_dim(rows, last, 0, keepdims=False), self.buffer
            )
            return self.with_buffer(self.buffer, last), item
        last = self.size - 1
        if last < 0:
            raise ValueError("Trying to pop from an empty list.")
        item = self._shared[last]
        rest = TensorList(self._shared, self.dtype, self.shape, last)
        return rest, item.value if isinstance(item, Fixed) else item

    def with_buffer(self, buffer: Any, count: Any) -> TensorList:
        """A list like this one, in a buffer."""
        return TensorList(None, self.dtype, self.shape, 0, buffer, count)

    def in_buffer(self, element: Any, capacity: int) -> TensorList:
        """The same elements in a buffer that has place for `capacity`.

        Args:
          element: The shapes and types of an element: a tree of what has both.
          capacity: At least as many as there are elements.
        """
        items = self.items
        if isinstance(element, Fixed) and all(item == element for item in items):
            return self.with_buffer(element, jnp.int32(len(items)))

        def rows(like: Any, *leaves: Any) -> Any:
            base = jnp.zeros((capacity, *like.shape), like.dtype)
            return base.at[: len(leaves)].set(jnp.stack(leaves)) if leaves else base

        return self.with_buffer(jax.tree.map(rows, element, *items), jnp.int32(len(items)))

    def joined(self, width: tuple[int, ...], xp: Any) -> Any:
        """The rows of all elements, one element after the other.

        Args:
          width: The shape of a row.
          xp: numpy or jax.numpy.
        """
        if isinstance(self.buffer, Fixed):
            raise ValueError("A list of known elements has no rows of a program")
        if self.buffer is not None:  # A loop that was counted has filled it.
            return self.buffer.reshape((-1, *width))
        if not self.size:
            return xp.zeros((0, *width), self.dtype)
        items = [item.value if isinstance(item, Fixed) else item for item in self.items]
        return xp.concatenate([item.reshape((-1, *width)) for item in items])

    def pieces(self, rows: Any) -> TensorList:
        """A list of rows, of which each element has as many as here."""
        if self.buffer is not None:
            return self.with_buffer(rows.reshape(self.buffer.shape), self.count)
        found, start = [], 0
        for item in self.items:
            end = start + item.size // max(1, math.prod(rows.shape[1:]))
            found.append(rows[start:end].reshape(item.shape))
            start = end
        return self.with_items(found)

    def in_program(self) -> TensorList:
        """The same list in a program: its elements are the program's arrays, or known."""
        if self.buffer is not None:
            return jax.tree.map(jnp.asarray, self)
        return self.with_items(
            [
                Fixed(item) if isinstance(item, np.ndarray) else jax.tree.map(jnp.asarray, item)
                for item in self.items
            ]
        )

    def __add__(self, other: Any) -> TensorList:
        """The sums of the elements, as AddN asks for: gradients of one list add up."""
        if not isinstance(other, TensorList):
            return NotImplemented
        shape = merged(self.shape, other.shape)
        if self.buffer is not None or other.buffer is not None:
            one, two = (
                value if value.buffer is not None else value.in_buffer(*_room(with_room))
                for value, with_room in ((self, other), (other, self))
            )
            total = jax.tree.map(jnp.add, one.buffer, two.buffer)
            return TensorList(None, self.dtype, shape, 0, total, one.count)
        if other.size != self.size:
            return NotImplemented
        pairs = zip(self.items, other.items, strict=True)
        items = [b if a is None else a if b is None else a + b for a, b in pairs]
        return TensorList(items, self.dtype, shape)

    __radd__ = __add__

    def zeros(self) -> TensorList:
        """The list with zeros for the elements."""
        if self.buffer is not None:
            return self.with_buffer(jax.tree.map(jnp.zeros_like, self.buffer), self.count)
        return self.with_items([_zeros(item) for item in self.items])

    def tree_flatten(self) -> tuple[Any, Any]:
        """For JAX: the arrays inside."""
        if self.buffer is not None:
            return (self.buffer, self.count), (self.dtype, self.shape)
        return tuple(self.items), (self.dtype, self.shape, None)

    @classmethod
    def tree_unflatten(cls, auxiliary: Any, children: Any) -> TensorList:
        """For JAX: the inverse of `tree_flatten`."""
        if len(auxiliary) == 3:
            return cls(list(children), auxiliary[0], auxiliary[1])
        return cls(None, auxiliary[0], auxiliary[1], 0, children[0], children[1])


def _room(value: TensorList) -> tuple[Any, int]:
    """What a buffer holds: the form of an element, and how many."""
    leaves = jax.tree.leaves(value.buffer)
    element = jax.tree.map(
        lambda rows: jax.ShapeDtypeStruct(rows.shape[1:], rows.dtype),  # type: ignore[no-untyped-call]
        value.buffer,
    )
    return element, leaves[0].shape[0] if leaves else 0


def _zeros(item: Any) -> Any:
    if item is None:
        return None
    return item.zeros() if isinstance(item, TensorList) else np.zeros_like(item)


def merged(one: ElementShape, other: ElementShape) -> ElementShape:
    """What both say of an element's shape; ValueError if they differ."""
    if one is None or other is None:
        return other if one is None else one
    if len(one) != len(other) or any(
        a != b and a >= 0 and b >= 0 for a, b in zip(one, other, strict=True)
    ):
        raise ValueError(f"Tried to use a list of elements of shape {one} as one of {other}")
    return tuple(b if a < 0 else a for a, b in zip(one, other, strict=True))


def unset(count: int) -> list[Any]:
    """So many elements that were not set.

    Raises:
      ResourceExhaustedError: They are too many.
    """
    limits.LIST_ELEMENTS.check(count, "Elements of a list of tensors")
    return [None] * count


def boxed(value: Any) -> np.ndarray:
    """A value as a tensor of type variant."""
    box = np.empty((), object)
    box[()] = value
    return box
