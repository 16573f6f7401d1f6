"""The geometry of sliding windows: what convolutions and poolings share.

Pure arithmetic on sizes; nothing here touches arrays. A *spatial* axis is one that the window
moves along; data formats name the order of the axes (``NHWC``, ``NCDHW``, ...).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from millrace.core.tensor_shape import TensorShape

__all__: list[str] = []


def is_channels_first(data_format: bytes) -> bool:
    """Whether the channel axis comes right behind the batch axis."""
    return data_format.startswith(b"NC")


def spatial_axes(data_format: bytes, rank: int) -> tuple[int, ...]:
    """Where the spatial axes of a tensor with `rank` axes are."""
    return tuple(range(2, rank)) if is_channels_first(data_format) else tuple(range(1, rank - 1))


def channel_axis(data_format: bytes, rank: int) -> int:
    """Where the channels of a tensor with `rank` axes are."""
    return 1 if is_channels_first(data_format) else rank - 1


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
    """A window along one axis: its size, step, dilation and the padding rule.

    Attributes:
      padding: ``SAME``, ``VALID`` or ``EXPLICIT``.
      explicit: Padding before and behind, for ``EXPLICIT``.
    """

    size: int
    stride: int = 1
    dilation: int = 1
    padding: bytes = b"VALID"
    explicit: tuple[int, int] = (0, 0)

    @property
    def reach(self) -> int:
        """How many input positions the dilated window spans."""
        return (self.size - 1) * self.dilation + 1

    def output_size(self, length: int | None) -> int | None:
        """How many windows fit along an axis of `length`.

        Raises:
          ValueError: Not a single one.
        """
        if length is None:
            return None
        if self.padding == b"SAME":
            return -(-length // self.stride)
        room = length + sum(self.explicit) if self.padding == b"EXPLICIT" else length
        if room < self.reach:
            raise ValueError(
                f"Negative dimension size caused by subtracting {self.reach} from {room}"
            )
        return (room - self.reach) // self.stride + 1

    def pads(self, length: int) -> tuple[int, int]:
        """How many positions are added before and behind an axis of `length`."""
        if self.padding == b"EXPLICIT":
            return self.explicit
        if self.padding == b"VALID":
            return (0, 0)
        count = -(-length // self.stride)
        total = max((count - 1) * self.stride + self.reach - length, 0)
        return (total // 2, total - total // 2)


def windows(
    sizes: Sequence[int],
    axes: Sequence[int],
    strides: Sequence[int],
    padding: bytes,
    dilations: Sequence[int] | None = None,
    explicit_paddings: Sequence[int] = (),
) -> list[Window]:
    """One `Window` for each spatial axis.

    Args:
      sizes: The window's sizes, one for each spatial axis.
      axes: The spatial axes.
      strides: One for each axis of the tensor.
      padding: ``SAME``, ``VALID`` or ``EXPLICIT``.
      dilations: One for each axis of the tensor.
      explicit_paddings: Two for each axis of the tensor, for ``EXPLICIT``.

    Raises:
      ValueError: A stride or dilation is not positive.
    """
    result = []
    for axis, size in zip(axes, sizes, strict=True):
        dilation = dilations[axis] if dilations else 1
        if strides[axis] <= 0:
            raise ValueError(f"Stride must be > 0, but got {strides[axis]}")
        if dilation <= 0:
            raise ValueError(f"Dilation rate must be > 0, but got {dilation}")
        explicit = (0, 0)
        if padding == b"EXPLICIT":
            explicit = (explicit_paddings[2 * axis], explicit_paddings[2 * axis + 1])
        result.append(Window(size, strides[axis], dilation, padding, explicit))
    return result


def check_explicit_paddings(
    padding: bytes, explicit: Sequence[int], rank: int, data_format: bytes
) -> None:
    """Holds the attribute ``explicit_paddings`` against ``padding``.

    Raises:
      ValueError: Given without need, missing, negative, or not 0 for batch and channels.
    """
    if padding != b"EXPLICIT":
        if explicit:
            raise ValueError(
                "explicit_paddings attribute must be empty if the padding attribute is not EXPLICIT"
            )
        return
    if len(explicit) != 2 * rank:
        raise ValueError(
            f"explicit_paddings attribute must contain {2 * rank} values, but got: {len(explicit)}"
        )
    if any(value < 0 for value in explicit):
        raise ValueError(f"All elements of explicit_paddings must be nonnegative: {list(explicit)}")
    for axis in (0, channel_axis(data_format, rank)):
        if explicit[2 * axis] or explicit[2 * axis + 1]:
            raise ValueError("Nonzero explicit padding in the batch or depth dimensions")


def per_axis(value: Any, name: str, spatial: int, data_format: bytes) -> list[int]:
    """A number, or one a spatial axis, spelled out as one for each axis of the tensor.

    Args:
      value: A number, `spatial` numbers, or all of them.
      name: The argument's name, for errors.
      spatial: How many spatial axes there are.
      data_format: Where they are.

    Raises:
      ValueError: Another count of numbers.
    """
    rank = spatial + 2
    if value is None:
        return [1] * rank
    try:
        values = [int(v) for v in value]
    except TypeError:
        values = [int(value)]
    if len(values) == 1:
        values *= spatial
    if len(values) == rank:
        return values
    if len(values) != spatial:
        raise ValueError(
            f"{name} should be of length 1, {spatial} or {rank}. "
            f"Received: {name}={value} of length {len(values)}"
        )
    return [1, 1, *values] if is_channels_first(data_format) else [1, *values, 1]


def with_sizes(
    shape: TensorShape,
    axes: Sequence[int],
    sizes: Sequence[int | None],
    channels: int | None,
    axis: int,
) -> TensorShape:
    """`shape` with new sizes along the spatial axes and the channel axis."""
    result = list(shape.as_list())
    for where, size in zip(axes, sizes, strict=True):
        result[where] = size
    result[axis] = channels
    return TensorShape(result)
