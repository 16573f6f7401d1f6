"""Places and sizes of dimensions, from one layout of images to another."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.graph.define import op
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import unchanged

__all__: list[str] = []

_FORMATS = 'T: {int32, int64} = int32; src_format: string = "NHWC"; dst_format: string = "NCHW"'


def _check_formats(source: bytes, target: bytes) -> None:
    if len(source) not in (4, 5):
        raise ValueError(
            f"Source format must be of length 4 or 5, received src_format = {source.decode()}"
        )
    if len(target) not in (4, 5):
        raise ValueError(
            f"Destination format must be of length 4 or 5, received dst_format = {target.decode()}"
        )
    if sorted(source) != sorted(target):
        raise ValueError(
            "Destination and source format must determine a permutation, got "
            f"{source.decode()} and {target.decode()}"
        )


@op(
    f"DataFormatDimMap(x: T) -> y: T where {_FORMATS}",
    shape=unchanged,
    gradient=NO_GRADIENT,
)
def DataFormatDimMap(x: Any, *, src_format: bytes, dst_format: bytes, xp: Any) -> Any:
    """Numbers of dimensions in one layout as numbers in another."""
    _check_formats(src_format, dst_format)
    table = np.array([dst_format.index(letter) for letter in src_format], x.dtype)
    return xp.take(table, xp.mod(x, len(table)), axis=0)


@op(
    f"DataFormatVecPermute(x: T) -> y: T where {_FORMATS}",
    shape=unchanged,
    gradient=NO_GRADIENT,
)
def DataFormatVecPermute(x: Any, *, src_format: bytes, dst_format: bytes, xp: Any) -> Any:
    """Sizes (or pairs of paddings) in the order of another layout.

    With two entries less than the layout has letters, they are those of the spatial dimensions.
    """
    _check_formats(src_format, dst_format)
    if x.ndim not in (1, 2):
        raise ValueError(f"input must be a vector or 2D tensor, but got shape {x.shape}")
    rank = len(src_format)
    if x.shape[0] not in (rank, rank - 2):
        raise ValueError(
            f"1D input must be of size {rank - 2} or {rank}, but got shape {list(x.shape)}"
        )
    if x.ndim == 2 and x.shape[1] != 2:
        raise ValueError(f"Second dimension of 2D input must be of size 2, but got {x.shape}")
    if x.shape[0] == rank - 2:
        src_format = bytes(letter for letter in src_format if letter not in b"NC")
        dst_format = bytes(letter for letter in dst_format if letter not in b"NC")
    return x[np.array([src_format.index(letter) for letter in dst_format])]
