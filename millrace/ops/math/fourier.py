"""Discrete Fourier transforms over the last one, two or three axes.

The lengths of the transforms of real signals are static inputs. Signals are cut or filled with
zeros to these lengths. Gradients are those of JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from millrace.compiler.xla import jnp
from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import Op, op
from millrace.graph.registry import JAX_GRADIENT
from millrace.graph.shape_inference import ShapeContext
from millrace.graph.tensor import Tensor
from millrace.ops.array import join as array_join
from millrace.ops.array import shape as array_shape

__all__ = ["fft", "fft2d", "fft3d", "ifft", "ifft2d", "ifft3d"]

_AXES = {1: (-1,), 2: (-2, -1), 3: (-3, -2, -1)}
_COMPLEX = "Tcomplex: {complex64, complex128} = complex64"
_REAL = "Treal: {float32, float64} = float32"


def _require_rank(shape: TensorShape, rank: int) -> None:
    if shape.ndims is not None and shape.ndims < rank:
        raise ValueError(f"Shape must be at least rank {rank} but is rank {shape.ndims}")


def _transform(name: str, rank: int, function: Callable[..., Any]) -> Op:
    """Registers a transform of complex signals."""

    def shape(c: ShapeContext) -> TensorShape:
        _require_rank(c.shape(0), rank)
        return c.shape(0)

    @op(
        f"{name}(input: Tcomplex) -> output: Tcomplex where {_COMPLEX}",
        shape=shape,
        gradient=JAX_GRADIENT,
    )
    def kernel(input: Any) -> Any:
        return function(jnp.asarray(input), axes=_AXES[rank])

    return kernel


FFT = _transform("FFT", 1, jnp.fft.fftn)
IFFT = _transform("IFFT", 1, jnp.fft.ifftn)
FFT2D = _transform("FFT2D", 2, jnp.fft.fftn)
IFFT2D = _transform("IFFT2D", 2, jnp.fft.ifftn)
FFT3D = _transform("FFT3D", 3, jnp.fft.fftn)
IFFT3D = _transform("IFFT3D", 3, jnp.fft.ifftn)


def _lengths(fft_length: Any, rank: int) -> list[int]:
    lengths: list[int] = np.ravel(fft_length).tolist()
    if len(lengths) != rank:
        raise ValueError(f"fft_length must have shape [{rank}], got [{len(lengths)}]")
    return lengths


def _real_transform(name: str, rank: int, forward: bool) -> Op:
    """Registers a transform from real to complex signals, or back."""

    def shape(c: ShapeContext) -> TensorShape:
        _require_rank(c.shape(0), rank)
        sizes, lengths = c.shape(0).sizes, c.value("fft_length")
        if sizes is None:
            return unknown_shape()
        if lengths is None:
            return TensorShape([*sizes[:-rank], *([None] * rank)])
        result: list[int | None] = list(_lengths(lengths, rank))
        if forward and result[-1]:
            result[-1] = result[-1] // 2 + 1
        return TensorShape([*sizes[:-rank], *result])

    types = ("Treal", "Tcomplex") if forward else ("Tcomplex", "Treal")

    @op(
        f"{name}(input: {types[0]}, fft_length: int32) -> output: {types[1]} "
        f"where {_REAL}; {_COMPLEX}",
        shape=shape,
        static=("fft_length",),
        gradient=JAX_GRADIENT,
    )
    def kernel(input: Any, fft_length: Any) -> Any:
        function = jnp.fft.rfftn if forward else jnp.fft.irfftn
        return function(jnp.asarray(input), s=_lengths(fft_length, rank), axes=_AXES[rank])

    return kernel


RFFT = _real_transform("RFFT", 1, forward=True)
IRFFT = _real_transform("IRFFT", 1, forward=False)
RFFT2D = _real_transform("RFFT2D", 2, forward=True)
IRFFT2D = _real_transform("IRFFT2D", 2, forward=False)
RFFT3D = _real_transform("RFFT3D", 3, forward=True)
IRFFT3D = _real_transform("IRFFT3D", 3, forward=False)


def fft(input: Any, name: str | None = None) -> Tensor:
    """The Fourier transform over the last axis."""
    return FFT(input, name=name)


def ifft(input: Any, name: str | None = None) -> Tensor:
    """The inverse Fourier transform over the last axis."""
    return IFFT(input, name=name)


def fft2d(input: Any, name: str | None = None) -> Tensor:
    """The Fourier transform over the last two axes."""
    return FFT2D(input, name=name)


def ifft2d(input: Any, name: str | None = None) -> Tensor:
    """The inverse Fourier transform over the last two axes."""
    return IFFT2D(input, name=name)


def fft3d(input: Any, name: str | None = None) -> Tensor:
    """The Fourier transform over the last three axes."""
    return FFT3D(input, name=name)


def ifft3d(input: Any, name: str | None = None) -> Tensor:
    """The inverse Fourier transform over the last three axes."""
    return IFFT3D(input, name=name)


def _forward(kind: Op, rank: int, input_tensor: Any, fft_length: Any, name: str | None) -> Tensor:
    with name_scope(name, kind.name.lower(), [input_tensor, fft_length]) as scope:
        x = convert_to_tensor(input_tensor, preferred_dtype=dtypes.float32)
        is_wide = x.dtype.base_dtype == dtypes.float64
        lengths = _last_sizes(x, rank) if fft_length is None else fft_length
        out = dtypes.complex128 if is_wide else dtypes.complex64
        return kind(x, lengths, Tcomplex=out, name=scope)


def _inverse(kind: Op, rank: int, input_tensor: Any, fft_length: Any, name: str | None) -> Tensor:
    with name_scope(name, kind.name.lower(), [input_tensor, fft_length]) as scope:
        x = convert_to_tensor(input_tensor, preferred_dtype=dtypes.complex64)
        lengths = fft_length
        if lengths is None:
            lengths = _last_sizes(x, rank)
            # The last axis holds half of the spectrum; an even length is assumed.
            if isinstance(lengths, list):
                lengths = [*lengths[:-1], max(0, 2 * (lengths[-1] - 1))]
            else:
                last = 2 * (lengths[-1:] - 1)
                lengths = array_join.concat([lengths[:-1], last], 0) if rank > 1 else last
        return kind(x, lengths, Treal=x.dtype.base_dtype.real_dtype, name=scope)


def _last_sizes(x: Tensor, rank: int) -> Any:
    sizes = None if x.shape.sizes is None else list(x.shape.sizes[-rank:])
    if sizes is not None and None not in sizes:
        return sizes
    shape: Any = array_shape.shape(x)
    return shape[-rank:]


def rfft(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
    """The Fourier transform of real signals over the last axis: the non-negative half.

    Args:
      input_tensor: The signals.
      fft_length: The length of the transform, a vector of one number; that of the signals
        when None.
      name: The node's name.
    """
    return _forward(RFFT, 1, input_tensor, fft_length, name)


def irfft(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
    """The inverse of `rfft`."""
    return _inverse(IRFFT, 1, input_tensor, fft_length, name)


def rfft2d(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
    """As `rfft`, over the last two axes."""
    return _forward(RFFT2D, 2, input_tensor, fft_length, name)


def irfft2d(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
    """The inverse of `rfft2d`."""
    return _inverse(IRFFT2D, 2, input_tensor, fft_length, name)


def rfft3d(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
    """As `rfft`, over the last three axes."""
    return _forward(RFFT3D, 3, input_tensor, fft_length, name)


def irfft3d(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
    """The inverse of `rfft3d`."""
    return _inverse(IRFFT3D, 3, input_tensor, fft_length, name)
