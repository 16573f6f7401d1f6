"""The run-time value of a list of tensors: what a variant holds that a v2 loop carries."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from millrace.platform import limits

#: The shape of an element, with -1 where it is not known; None when the rank is not.
ElementShape = tuple[int, ...] | None


@dataclasses.dataclass(frozen=True)
class TensorList:
    """The elements (None for one that was not set), and what each must look like."""

    items: tuple[Any, ...]
    dtype: Any
    shape: ElementShape

    def with_items(self, items: tuple[Any, ...]) -> TensorList:
        """A list like this one, of other elements."""
        return TensorList(items, self.dtype, self.shape)

    def __add__(self, other: Any) -> TensorList:
        """The sums of the elements, as AddN asks for: gradients of one list add up."""
        if not isinstance(other, TensorList) or len(other.items) != len(self.items):
            return NotImplemented
        pairs = zip(self.items, other.items, strict=True)
        return TensorList(
            tuple(b if a is None else a if b is None else a + b for a, b in pairs),
            self.dtype,
            merged(self.shape, other.shape),
        )

    def zeros(self) -> TensorList:
        """The list with zeros for the elements."""
        return self.with_items(
            tuple(None if item is None else np.zeros_like(item) for item in self.items)
        )


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
