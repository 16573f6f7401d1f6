"""The run-time value of a TensorArray: what travels along its flow edges.

A value is never changed: a write gives a new one, so loops can carry it and JAX can
differentiate through it. Elements are kept apart while they are written at known positions,
and become one buffer when a position is only known inside the XLA program.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

from millrace.compiler.xla import jax, jnp
from millrace.core import dtypes
from millrace.ops.control_flow.tensor_list_value import ABSENT, Collection, TensorList, unset


@jax.tree_util.register_pytree_node_class
class TensorArrayValue(Collection):
    """Elements of a TensorArray.

    Invariant: exactly one of `items` (a list with None for what was not written) and
    `buffer` (all elements stacked) is not None.
    """

    __slots__ = (
        "buffer",
        "cleared",
        "clears",
        "dtype",
        "element_shape",
        "is_gradient",
        "items",
        "shapes",
    )

    def __init__(
        self,
        dtype: Any,
        items: list[Any] | None = None,
        buffer: Any = None,
        element_shape: tuple[int, ...] | None = None,
        is_gradient: bool = False,
        shapes: tuple[tuple[int, ...] | None, ...] | None = None,
    ) -> None:
        self.dtype = dtype
        self.items = items
        self.buffer = buffer
        #: The shape of an element where it was declared in full.
        self.element_shape = element_shape
        #: Whether writes add up instead of being made once.
        self.is_gradient = is_gradient
        #: Of gradients: the shapes of the elements that they belong to, where these differ.
        self.shapes = shapes
        #: Whether an element can be read only once, and which were. Only known positions are
        #: followed, and only as long as the value stays in one program.
        self.clears = False
        self.cleared: set[int] = set()

    def _with(self, items: list[Any] | None, buffer: Any) -> TensorArrayValue:
        other = TensorArrayValue(
            self.dtype, items, buffer, self.element_shape, self.is_gradient, self.shapes
        )
        other.clears = self.clears
        return other

    def tree_flatten(self) -> tuple[Any, Any]:
        """For JAX: the arrays inside."""
        return (self.items, self.buffer), (
            self.dtype,
            self.element_shape,
            self.is_gradient,
            self.shapes,
        )

    @classmethod
    def tree_unflatten(cls, auxiliary: Any, children: Any) -> TensorArrayValue:
        """For JAX: the inverse of `tree_flatten`."""
        return cls(auxiliary[0], children[0], children[1], *auxiliary[1:])

    @property
    def size(self) -> int:
        """The number of elements."""
        if self.items is not None:
            return len(self.items)
        return int(self.buffer.shape[0])

    def _element_shape(self) -> tuple[int, ...]:
        if self.element_shape is not None:
            return self.element_shape
        for item in self.items or ():
            if item is not None:
                return tuple(item.shape)
        raise ValueError(
            "TensorArray: no element was written and element_shape is not fully defined, so the "
            "shape of the elements is not known"
        )

    def stacked(self, xp: Any = jnp) -> Any:
        """All elements as one array; zeros for those that were not written."""
        if self.buffer is not None:
            return self.buffer
        assert self.items is not None
        shape = self._element_shape() if (self.items or self.element_shape is not None) else ()
        if all(item is None for item in self.items):
            return xp.zeros((len(self.items), *shape), self.dtype)
        zero = None
        parts = []
        for item in self.items:
            if item is None:
                zero = xp.zeros(shape, self.dtype) if zero is None else zero
                item = zero
            elif tuple(item.shape) != shape:
                raise ValueError(
                    "TensorArray has inconsistent shapes. An element has shape: "
                    f"{list(shape)} but another has shape: {list(item.shape)}"
                )
            parts.append(item)
        return _stack(parts, xp)

    def with_buffer(self) -> TensorArrayValue:
        """The same elements as one buffer."""
        if self.buffer is not None:
            return self
        return self._with(None, self.stacked())

    def write(self, index: Any, value: Any, dynamic_size: bool) -> TensorArrayValue:
        """With `value` at position `index`."""
        if isinstance(index, jax.core.Tracer):
            place = self._buffer_for(tuple(value.shape)).at[index]
            return self._with(None, place.add(value) if self.is_gradient else place.set(value))
        position = int(index)
        if position < 0 or (position >= self.size and not dynamic_size):
            raise ValueError(
                f"Tried to write to index {position} but array is not resizeable and size is: "
                f"{self.size}"
            )
        if self.buffer is not None and position < self.size:
            if self.is_gradient:
                value = self.buffer[position] + value
            if isinstance(self.buffer, np.ndarray) and not isinstance(value, jax.Array):
                buffer: Any = self.buffer.copy()
                buffer[position] = value
            else:
                buffer = jnp.asarray(self.buffer).at[position].set(value)
            return self._with(None, buffer)
        items = self._as_items()
        items.extend(unset(position + 1 - len(items)))
        if items[position] is not None and self.is_gradient:
            value = items[position] + value
        elif items[position] is not None:
            raise ValueError(
                f"Could not write to TensorArray index {position} because it has already been "
                "written to."
            )
        items[position] = value
        return self._with(items, None)

    def owned(self) -> TensorArrayValue:
        """A copy that nobody else has, which may be changed by `put`."""
        return self._with(self._as_items(), None)

    def put(self, index: Any, value: Any, dynamic_size: bool) -> None:
        """As `write`, in place: of a value that is `owned`."""
        if value.dtype != self.dtype:
            self.check_type(value)
        items, position = self.items, int(index)
        if items is None or not 0 <= position < len(items):
            self.items = self.write(index, value, dynamic_size).items
        elif items[position] is None:
            items[position] = value
        elif self.is_gradient:
            items[position] = items[position] + value
        else:
            self.write(index, value, dynamic_size)  # It refuses.
        if self.cleared:
            self.cleared.clear()

    def check_type(self, value: Any) -> None:
        """Checks that a value is of the type of the elements."""
        if value.dtype != self.dtype:
            names = (dtypes.as_dtype(self.dtype).name, dtypes.as_dtype(value.dtype).name)
            raise ValueError(
                f"TensorArray dtype is {names[0]} but Op is trying to write dtype "
                f"{'float' if names[1] == 'float32' else names[1]}."
            )

    def scatter(self, indices: Any, values: Any, dynamic_size: bool) -> TensorArrayValue:
        """With the rows of `values` at positions that are only known inside the XLA program.

        One scatter, not a write per row: a chain of writes takes XLA's compiler twice as long
        with each row. An array that may grow gets place for as many rows as are written; that
        `indices` stay within is left to the caller to check.
        """
        base = self._buffer_for(tuple(values.shape[1:]))
        missing = values.shape[0] - self.size
        if dynamic_size and missing > 0:
            base = jnp.pad(base, [(0, missing)] + [(0, 0)] * (base.ndim - 1))
        place = base.at[indices]
        return self._with(None, place.add(values) if self.is_gradient else place.set(values))

    def _buffer_for(self, shape: tuple[int, ...]) -> Any:
        """All elements as one array to write in, when an element of this shape is written."""
        if self.buffer is not None:
            return jnp.asarray(self.buffer)
        if self.element_shape is not None:
            shape = tuple(self.element_shape)
        else:
            shape = next((tuple(i.shape) for i in self.items or () if i is not None), shape)
        return TensorArrayValue(self.dtype, self.items, None, shape).stacked()

    def _as_items(self) -> list[Any]:
        if self.items is not None:
            return list(self.items)
        return [self.buffer[i] for i in range(self.size)]

    def read(self, index: Any, xp: Any) -> Any:
        """The element at `index`."""
        if isinstance(index, jax.core.Tracer):
            buffer = self.stacked()
            return jax.lax.dynamic_index_in_dim(buffer, index, 0, keepdims=False)
        position = int(index)
        if position in self.cleared:
            raise ValueError(
                f"Could not read index {position} twice because it was cleared after a previous "
                "read (perhaps try setting clear_after_read = false?)."
            )
        if self.clears:
            self.cleared.add(position)
        if not 0 <= position < self.size:
            raise ValueError(f"Tried to read from index {position} but array size is: {self.size}")
        if self.buffer is not None:
            return self.buffer[position]
        assert self.items is not None
        item = self.items[position]
        if item is None:
            if self.element_shape is None:
                raise ValueError(
                    f"Could not read from TensorArray index {position}. Furthermore, the element "
                    "shape is not fully defined. It is possible you are working with a resizeable "
                    "TensorArray and stop_gradients is not allowing the gradients to be written."
                )
            return xp.zeros(self.element_shape, self.dtype)
        return item

    def empty_gradient(self) -> TensorArrayValue:
        """An array of gradients for this one, without a gradient yet."""
        if self.buffer is not None:
            shape = tuple(self.buffer.shape[1:])
            if isinstance(self.buffer, np.ndarray):
                return TensorArrayValue(self.dtype, [None] * self.size, None, shape, True)
            return TensorArrayValue(self.dtype, None, jnp.zeros_like(self.buffer), shape, True)
        assert self.items is not None
        found = self.shapes or tuple([None if i is None else tuple(i.shape) for i in self.items])
        kinds = {shape for shape in found if shape is not None}
        common = kinds.pop() if len(kinds) == 1 else self.element_shape
        return TensorArrayValue(
            self.dtype, [None] * len(found), None, common, True, found if kinds else None
        )

    def gradient(self, index: Any, xp: Any) -> Any:
        """The gradient at `index`; zeros if there is none."""
        if self.items is None or isinstance(index, jax.core.Tracer):
            return self.read(index, xp)
        position = int(index)
        found = self.items[position]
        return xp.zeros(self._shape_at(position), self.dtype) if found is None else found

    def _shape_at(self, position: int) -> tuple[int, ...]:
        found = self.shapes[position] if self.shapes is not None else None
        return self._element_shape() if found is None else found

    def gradients(self, indices: Any, xp: Any) -> Any:
        """The gradients at `indices`, stacked."""
        if self.items is None or isinstance(indices, jax.core.Tracer):
            return self.stacked(xp)[indices]
        items = self.items
        zero = None
        found = []
        for position in indices.tolist():
            item = items[position]
            if item is None:
                zero = xp.zeros(self._shape_at(position), self.dtype) if zero is None else zero
                item = zero
            found.append(item)
        return _stack(found, xp) if found else xp.zeros((0, *self._element_shape()), self.dtype)

    def add_rows(self, indices: Any, values: Any) -> TensorArrayValue:
        """With the rows of `values` added at `indices`; of gradients."""
        if isinstance(indices, jax.core.Tracer) or self.items is None:
            return self.scatter(jnp.asarray(indices), values, False)
        items = list(self.items)
        for row, position in enumerate(indices.tolist()):
            item, value = items[position], values[row]
            items[position] = value if item is None else item + value
        return self._with(items, None)


def _stack(arrays: list[Any], xp: Any) -> Any:
    """As `xp.stack`, which looks at each array several times."""
    if xp is not np or not arrays[0].ndim:
        return xp.stack(arrays)
    first = arrays[0].shape
    rows = np.concatenate(arrays)
    if rows.shape[0] != first[0] * len(arrays):
        raise ValueError(f"Elements of a TensorArray differ in shape from {list(first)}")
    return rows.reshape((len(arrays), *first))


def like(grad: Any, primal: Any) -> Any:
    """A gradient in the form (items or buffer) of the value that it belongs to."""
    if not isinstance(primal, TensorArrayValue):
        return grad
    if primal.buffer is not None:
        if grad.buffer is None:
            shape = tuple(primal.buffer.shape[1:])
            grad = TensorArrayValue(grad.dtype, grad.items, None, shape).with_buffer()
        buffer = jnp.asarray(grad.buffer).reshape(primal.buffer.shape)
        return primal._with(None, buffer)
    assert primal.items is not None
    parts = grad._as_items()
    items = [
        None if item is None else jnp.zeros_like(item) if parts[i] is None else parts[i]
        for i, item in enumerate(primal.items)
    ]
    return primal._with(items, None)


def add(values: list[Any]) -> Any:
    """The sum of TensorArray values (gradients that meet at a flow); None counts as zero."""
    arrays = [v for v in values if isinstance(v, TensorArrayValue)]
    # The sum of gradients is a gradient, even when one of the parts is a plain zero.
    total = next((v for v in arrays if v.is_gradient), arrays[0])
    arrays.remove(total)
    arrays.insert(0, total)
    for value in arrays[1:]:
        if total.items is not None and value.items is not None:
            items = [
                b if a is None else a if b is None else a + b
                for a, b in zip(total.items, value.items, strict=True)
            ]
            total = total._with(items, None)
        elif _is_blank(total):
            total = value
        elif not _is_blank(value):
            total = total._with(None, total.stacked() + value.stacked())
    return total


def in_program(value: Any) -> bool:
    """Whether a value is, or holds, arrays of JAX."""
    if type(value) is TensorArrayValue:
        if value.buffer is not None:
            return type(value.buffer) is not np.ndarray
        return any(in_program(i) for i in value.items or () if type(i) is not np.ndarray)
    if type(value) is TensorList and value.buffer is None:
        return any(in_program(i) for i in value.items if type(i) is not np.ndarray)
    return any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(value))


def _is_blank(value: TensorArrayValue) -> bool:
    return value.items is not None and all(item is None for item in value.items)


#: Ordinary ops that flows and lists go through.
_ELEMENTWISE = frozenset(
    ("Add", "AddN", "AddV2", "Identity", "PreventGradient", "StopGradient", "ZerosLike")
)


def elementwise(op_type: str, inputs: list[Any]) -> Any:
    """What an ordinary op does to a flow or a list, or NotImplemented."""
    if op_type not in _ELEMENTWISE:
        return NotImplemented
    flat = [v for group in inputs for v in (group if isinstance(group, list) else [group])]
    there = [value for value in flat if value is not ABSENT]
    if op_type in _ELEMENTWISE and len(there) < len(flat):
        if not there:
            return ABSENT
        if not isinstance(there[0], TensorArrayValue):
            return functools.reduce(operator.add, there)
    if there and isinstance(there[0], TensorList):
        return _elementwise_lists(op_type, there)
    if op_type in ("AddN", "AddV2", "Add"):
        return add(flat)
    if op_type in ("Identity", "StopGradient", "PreventGradient"):
        return flat[0]
    if op_type == "ZerosLike":
        return flat[0].empty_gradient()
    return NotImplemented


def _elementwise_lists(op_type: str, lists: list[TensorList]) -> Any:
    if op_type in ("AddN", "AddV2", "Add"):
        return functools.reduce(operator.add, lists)
    if op_type in ("Identity", "StopGradient", "PreventGradient"):
        return lists[0]
    return lists[0].zeros() if op_type == "ZerosLike" else NotImplemented
