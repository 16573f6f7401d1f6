"""What image functions ask of their arguments: while the graph is built where shapes are known,
else when it runs."""

from __future__ import annotations

from typing import Any

from millrace.graph.tensor import Tensor
from millrace.ops.array import join as array_join
from millrace.ops.array import shape as array_shape
from millrace.ops.control_flow import assertion, checks, control_flow

__all__: list[str] = []


def is_tensor(value: Any) -> bool:
    """Whether a value is known only when the graph runs."""
    return isinstance(value, Tensor) or hasattr(value, "_as_graph_element")


def dimensions(image: Tensor, rank: int) -> list[Any]:
    """The sizes of an image: numbers where they are known, else tensors."""
    if image.shape.is_fully_defined():
        return list(image.shape.as_list())
    static = image.shape.with_rank(rank).as_list()
    dynamic = array_join.unstack(array_shape.shape(image), rank)
    return [d if s is None else s for s, d in zip(static, dynamic, strict=True)]


def require(condition: Any, message: str) -> list[Any]:
    """Operations that check a condition when run; none when it is known to hold.

    Raises:
      ValueError: It is known not to hold.
    """
    if is_tensor(condition):
        return [assertion.Assert(condition, [message])]
    if not condition:
        raise ValueError(message)
    return []


def at_least_three_dimensional(image: Tensor) -> list[Any]:
    """Operations that check that an image has height, width and channels, none of them 0.

    Raises:
      ValueError: It is known that it has not.
    """
    try:
        if image.shape.ndims is None:
            shape = image.shape.with_rank(3)
        else:
            shape = image.shape.with_rank_at_least(3)
    except ValueError:
        raise ValueError(
            f"'image' (shape {image.shape}) must be at least three-dimensional."
        ) from None
    inner = shape[-3:]
    if any(size == 0 for size in inner.as_list()):
        raise ValueError(f"inner 3 dims of 'image.shape' must be > 0: {shape}")
    if inner.is_fully_defined():
        return []
    sizes: Any = array_shape.shape(image)
    return [
        checks.assert_positive(sizes[-3:], ["inner 3 dims of 'image.shape' must be > 0."]),
        checks.assert_greater_equal(
            array_shape.rank(image), 3, message="'image' must be at least three-dimensional."
        ),
    ]


def checked(image: Tensor) -> Tensor:
    """The image, after the checks of `at_least_three_dimensional`."""
    return control_flow.with_dependencies(at_least_three_dimensional(image), image)


def as_batch(image: Tensor) -> tuple[Tensor, bool]:
    """(the image as a batch, whether it was one).

    Raises:
      ValueError: It has neither 3 nor 4 dimensions.
    """
    rank = image.shape.ndims
    if rank == 4:
        return image, True
    if rank not in (3, None):
        raise ValueError(f"'image' (shape {image.shape}) must have either 3 or 4 dimensions.")
    batch = array_shape.expand_dims(image, 0)
    if rank is None:
        batch.set_shape([None] * 4)
    return batch, False
