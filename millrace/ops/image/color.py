"""Colours of images: conversions between types and colour spaces, adjustments, at random too."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.compiler.xla import jnp
from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.registry import JAX_GRADIENT, NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.array import fill as array_fill
from millrace.ops.array import identity as array_identity
from millrace.ops.array import join as array_join
from millrace.ops.array import layout as array_layout
from millrace.ops.array import shape as array_shape
from millrace.ops.control_flow import checks, control_flow
from millrace.ops.image.checks import checked, require
from millrace.ops.linalg import contraction
from millrace.ops.math import arithmetic, elementwise, reduction
from millrace.ops.random import random

__all__: list[str] = []

_FLOATS = "{float16, bfloat16, float32, float64} = float32"


# -- Op types --------------------------------------------------------------------------------------


def _three_channels(c: ShapeContext) -> TensorShape:
    images = c.shape("images").with_rank_at_least(1)
    if images.ndims is not None:
        images[-1].assert_is_compatible_with(3)
        return images[:-1].concatenate(TensorShape([3]))
    return images


def _check_channels(images: Any) -> None:
    if images.ndim < 1:
        raise ValueError("input must be at least 1D")
    if images.shape[-1] != 3:
        raise ValueError(f"input must have 3 channels but input only has {images.shape[-1]}.")


def _hsv(images: Any) -> Any:
    """Hue, saturation and value, each in [0, 1], of red, green and blue."""
    red, green, blue = images[..., 0], images[..., 1], images[..., 2]
    value = jnp.max(images, axis=-1)
    spread = value - jnp.min(images, axis=-1)
    one = jnp.ones((), images.dtype)
    saturation = jnp.where(value > 0, spread / jnp.where(value > 0, value, one), 0)
    norm = 1 / (6 * jnp.where(spread > 0, spread, one))
    hue = jnp.where(
        red == value,
        norm * (green - blue),
        jnp.where(green == value, norm * (blue - red) + 2 / 6, norm * (red - green) + 4 / 6),
    )
    hue = jnp.where(spread > 0, hue, 0)
    hue = jnp.where(hue < 0, hue + 1, hue)
    return jnp.stack([hue, saturation, value], axis=-1).astype(images.dtype)


def _rgb(images: Any) -> Any:
    """Red, green and blue of hue, saturation and value."""
    hue, saturation, value = images[..., 0], images[..., 1], images[..., 2]
    sixths = hue * 6
    parts = (
        jnp.abs(sixths - 3) - 1,
        2 - jnp.abs(sixths - 2),
        2 - jnp.abs(sixths - 4),
    )
    base = 1 - saturation
    colors = [(base + saturation * jnp.clip(part, 0, 1)) * value for part in parts]
    return jnp.stack(colors, axis=-1).astype(images.dtype)


@op(
    f"RGBToHSV(images: T) -> output: T where T: {_FLOATS}",
    shape=_three_channels,
    gradient=JAX_GRADIENT,
)
def RGBToHSV(images: Any) -> Any:
    """Hue, saturation and value of colours."""
    _check_channels(images)
    return _hsv(jnp.asarray(images))


@op(
    f"HSVToRGB(images: T) -> output: T where T: {_FLOATS}",
    shape=_three_channels,
    gradient=NO_GRADIENT,
)
def HSVToRGB(images: Any) -> Any:
    """Red, green and blue of colours."""
    _check_channels(images)
    return _rgb(jnp.asarray(images))


def _at_least_three(c: ShapeContext) -> TensorShape:
    return c.shape("images").with_rank_at_least(3)


@op(
    "AdjustHue(images: T, delta: float32) -> output: T where T: {float16, float32} = float32",
    shape=_at_least_three,
    gradient=JAX_GRADIENT,
)
def AdjustHue(images: Any, delta: Any) -> Any:
    """Colours with their hue turned by a part of the circle."""
    _check_channels(images)
    wide = _hsv(jnp.asarray(images).astype(np.float32))
    hue = (wide[..., 0] + delta) % 1
    return _rgb(wide.at[..., 0].set(hue)).astype(images.dtype)


@op(
    "AdjustSaturation(images: T, scale: float32) -> output: T where "
    "T: {float16, float32} = float32",
    shape=_at_least_three,
    gradient=JAX_GRADIENT,
)
def AdjustSaturation(images: Any, scale: Any) -> Any:
    """Colours with their saturation multiplied."""
    _check_channels(images)
    wide = _hsv(jnp.asarray(images).astype(np.float32))
    saturation = jnp.clip(wide[..., 1] * scale, 0, 1)
    return _rgb(wide.at[..., 1].set(saturation)).astype(images.dtype)


@op(
    "AdjustContrastv2(images: T, contrast_factor: float32) -> output: T where "
    "T: {float16, float32} = float32",
    shape=_at_least_three,
    gradient=JAX_GRADIENT,
)
def AdjustContrastv2(images: Any, contrast_factor: Any) -> Any:
    """Pixels further from, or nearer to, the mean of their channel."""
    if images.ndim < 3:
        raise ValueError(f"input must be at least 3-D, got shape{list(images.shape)}")
    wide = jnp.asarray(images).astype(np.float32)
    mean = jnp.mean(wide, axis=(-3, -2), keepdims=True)
    return ((wide - mean) * contrast_factor + mean).astype(images.dtype)


@op(
    "AdjustContrast(images: T, contrast_factor: float32, min_value: float32, "
    "max_value: float32) -> output: float32 where "
    "T: {uint8, int8, int16, int32, int64, float32, float64}",
    shape=_at_least_three,
    gradient=NO_GRADIENT,
)
def AdjustContrast(images: Any, contrast_factor: Any, min_value: Any, max_value: Any) -> Any:
    """As AdjustContrastv2, within bounds: what old graphs contain."""
    wide = jnp.asarray(images).astype(np.float32)
    mean = jnp.mean(wide, axis=(-3, -2), keepdims=True)
    return jnp.clip((wide - mean) * contrast_factor + mean, min_value, max_value)


# -- Types -----------------------------------------------------------------------------------------


def convert_image_dtype(
    image: Any, dtype: Any, saturate: bool = False, name: str | None = None
) -> Tensor:
    """The image in another type, with its intensities scaled: floats are in [0, 1).

    Raises:
      AttributeError: A type is neither floating nor integer.
    """
    tensor = convert_to_tensor(image, name="image")
    kind, old = dtypes.as_dtype(dtype), tensor.dtype.base_dtype
    if not kind.is_floating and not kind.is_integer:
        raise AttributeError("dtype must be either floating point or integer")
    if not old.is_floating and not old.is_integer:
        raise AttributeError("image dtype must be either floating point or integer")
    if kind == old:
        return array_identity.identity(tensor, name=name)
    convert = cast.saturate_cast if saturate else cast.cast
    with name_scope(name, "convert_image", [tensor]) as scope:
        if old.is_integer and kind.is_integer:
            if old.max > kind.max:
                scaled = arithmetic.floordiv(tensor, (old.max + 1) // (kind.max + 1))
                return convert(scaled, kind, name=scope)
            widened = convert(tensor, kind)
            return arithmetic.multiply(widened, (kind.max + 1) // (old.max + 1), name=scope)
        if old.is_floating and kind.is_floating:
            return cast.cast(tensor, kind, name=scope)
        if old.is_integer:
            return arithmetic.multiply(cast.cast(tensor, kind), 1.0 / old.max, name=scope)
        return convert(arithmetic.multiply(tensor, kind.max + 0.5), kind, name=scope)


def _as_float(image: Tensor) -> Tensor:
    """The image as it is if it is float16 or float32, else as float32."""
    if image.dtype.base_dtype in (dtypes.float16, dtypes.float32):
        return image
    return convert_image_dtype(image, dtypes.float32)


# -- Adjustments -----------------------------------------------------------------------------------


def adjust_brightness(image: Any, delta: Any) -> Tensor:
    """The image with a number added to every pixel, in the scale [0, 1)."""
    with name_scope(None, "adjust_brightness", [image, delta]) as scope:
        tensor = convert_to_tensor(image, name="image")
        wide = _as_float(tensor)
        adjusted = arithmetic.add(wide, cast.cast(delta, wide.dtype), name=scope)
        return convert_image_dtype(adjusted, tensor.dtype, saturate=True)


def adjust_contrast(images: Any, contrast_factor: Any) -> Tensor:
    """The images with every pixel's distance from its channel's mean multiplied."""
    with name_scope(None, "adjust_contrast", [images, contrast_factor]) as scope:
        tensor = convert_to_tensor(images, name="images")
        adjusted = AdjustContrastv2(_as_float(tensor), contrast_factor, name=scope)
        return convert_image_dtype(adjusted, tensor.dtype, saturate=True)


def adjust_gamma(image: Any, gamma: Any = 1, gain: Any = 1) -> Tensor:
    """The image with ``gain * pixel ** gamma``.

    Raises:
      ValueError: `gamma` is negative.
    """
    with name_scope(None, "adjust_gamma", [image, gamma, gain]):
        tensor = convert_to_tensor(image, name="image")
        wide: Any = _as_float(tensor)
        conditions = require(gamma >= 0, "Gamma should be a non-negative real number.")
        if conditions:
            gamma = control_flow.with_dependencies(conditions, gamma)
        return convert_image_dtype(gain * wide**gamma, tensor.dtype, saturate=True)


def adjust_hue(image: Any, delta: Any, name: str | None = None) -> Tensor:
    """The image with its hues turned by a part of the circle, in [-1, 1]."""
    with name_scope(name, "adjust_hue", [image]):
        tensor = convert_to_tensor(image, name="image")
        return convert_image_dtype(AdjustHue(_as_float(tensor), delta), tensor.dtype)


def adjust_saturation(image: Any, saturation_factor: Any, name: str | None = None) -> Tensor:
    """The image with its saturations multiplied."""
    with name_scope(name, "adjust_saturation", [image]):
        tensor = convert_to_tensor(image, name="image")
        adjusted = AdjustSaturation(_as_float(tensor), saturation_factor)
        return convert_image_dtype(adjusted, tensor.dtype)


def random_brightness(image: Any, max_delta: float, seed: int | None = None) -> Tensor:
    """`adjust_brightness` by a random number in [-max_delta, max_delta).

    Raises:
      ValueError: `max_delta` is negative.
    """
    if max_delta < 0:
        raise ValueError("max_delta must be non-negative.")
    delta = random.random_uniform([], -max_delta, max_delta, seed=seed)
    return adjust_brightness(image, delta)


def _check_bounds(lower: float, upper: float) -> None:
    if upper <= lower:
        raise ValueError("upper must be > lower.")
    if lower < 0:
        raise ValueError("lower must be non-negative.")


def random_contrast(image: Any, lower: float, upper: float, seed: int | None = None) -> Tensor:
    """`adjust_contrast` by a random factor in [lower, upper)."""
    _check_bounds(lower, upper)
    return adjust_contrast(image, random.random_uniform([], lower, upper, seed=seed))


def random_saturation(image: Any, lower: float, upper: float, seed: int | None = None) -> Tensor:
    """`adjust_saturation` by a random factor in [lower, upper)."""
    _check_bounds(lower, upper)
    return adjust_saturation(image, random.random_uniform([], lower, upper, seed=seed))


def random_hue(image: Any, max_delta: float, seed: int | None = None) -> Tensor:
    """`adjust_hue` by a random part of the circle in [-max_delta, max_delta).

    Raises:
      ValueError: `max_delta` is not in [0, 0.5].
    """
    if max_delta > 0.5:
        raise ValueError("max_delta must be <= 0.5.")
    if max_delta < 0:
        raise ValueError("max_delta must be non-negative.")
    return adjust_hue(image, random.random_uniform([], -max_delta, max_delta, seed=seed))


def per_image_standardization(image: Any) -> Tensor:
    """The image with mean 0 and variance 1 (less where it is nearly uniform)."""
    with name_scope(None, "per_image_standardization", [image]) as scope:
        tensor: Any = checked(convert_to_tensor(image, name="image"))
        tensor = cast.cast(tensor, dtypes.float32)
        sizes: Any = array_shape.shape(tensor)
        pixels = reduction.reduce_prod(sizes[-3:])
        mean = reduction.reduce_mean(tensor, axis=[-1, -2, -3], keepdims=True)
        deviation = reduction.reduce_std(tensor, axis=[-1, -2, -3], keepdims=True)
        least = elementwise.rsqrt(cast.cast(pixels, dtypes.float32))
        deviation = arithmetic.maximum(deviation, least)
        return arithmetic.divide(tensor - mean, deviation, name=scope)


# -- Colour spaces ---------------------------------------------------------------------------------


def rgb_to_grayscale(images: Any, name: str | None = None) -> Tensor:
    """Images with one channel: the brightness that people see."""
    with name_scope(name, "rgb_to_grayscale", [images]) as scope:
        tensor = convert_to_tensor(images, name="images")
        wide = convert_image_dtype(tensor, dtypes.float32)
        gray = contraction.tensordot(wide, [0.2989, 0.5870, 0.1140], [-1, -1])
        return convert_image_dtype(array_shape.expand_dims(gray, -1), tensor.dtype, name=scope)


def grayscale_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """Images with three equal channels.

    Raises:
      ValueError: The last dimension is not 1.
    """
    with name_scope(name, "grayscale_to_rgb", [images]) as scope:
        tensor = convert_to_tensor(images, name="images")
        tensor = control_flow.with_dependencies(_grayscale_conditions(tensor), tensor)
        rank: Any = array_shape.rank(tensor)
        ones = array_fill.ones(array_shape.expand_dims(rank - 1, 0), dtypes.int32)
        multiples = array_join.concat([ones, array_shape.expand_dims(3, 0)], 0)
        colored = array_layout.tile(tensor, multiples, name=scope)
        if tensor.shape.ndims is not None:
            colored.set_shape(tensor.shape[:-1].concatenate(TensorShape([3])))
        return colored


def _grayscale_conditions(image: Tensor) -> list[Any]:
    try:
        shape = image.shape if image.shape.ndims is None else image.shape.with_rank_at_least(2)
    except ValueError:
        raise ValueError(
            f"A grayscale image (shape {image.shape}) must be at least two-dimensional."
        ) from None
    message = "Last dimension of a grayscale image should be size 1."
    if shape.is_fully_defined():
        if shape[-1] != 1:
            raise ValueError(message)
        return []
    sizes: Any = array_shape.shape(image)
    return [
        checks.assert_equal(sizes[-1], 1, message=message),
        checks.assert_greater_equal(
            array_shape.rank(image),
            3,
            message="A grayscale image must be at least two-dimensional.",
        ),
    ]


def rgb_to_hsv(images: Any, name: str | None = None) -> Tensor:
    """Images in hue, saturation and value, each in [0, 1]."""
    return RGBToHSV(images, name=name)


def hsv_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """Images in red, green and blue."""
    return HSVToRGB(images, name=name)


# Rows: what each of the first space's components adds to those of the second (ITU-R BT.601).
_YIQ_OF_RGB = [
    [0.299, 0.59590059, 0.2115],
    [0.587, -0.27455667, -0.52273617],
    [0.114, -0.32134392, 0.31119955],
]
_RGB_OF_YIQ = [
    [1.0, 1.0, 1.0],
    [0.95598634, -0.27201283, -1.10674021],
    [0.6208248, -0.64720424, 1.70423049],
]
_YUV_OF_RGB = [
    [0.299, -0.14714119, 0.61497538],
    [0.587, -0.28886916, -0.51496512],
    [0.114, 0.43601035, -0.10001026],
]
_RGB_OF_YUV = [
    [1.0, 1.0, 1.0],
    [0.0, -0.394642334, 2.03206185],
    [1.13988303, -0.58062185, 0.0],
]


def _recolored(images: Any, matrix: list[list[float]]) -> Tensor:
    tensor = convert_to_tensor(images, name="images")
    kernel = convert_to_tensor(matrix, tensor.dtype, name="kernel")
    rank = tensor.shape.ndims
    if rank is None:
        raise ValueError("The rank of the images must be known.")
    return contraction.tensordot(tensor, kernel, axes=[[rank - 1], [0]])


def rgb_to_yiq(images: Any) -> Tensor:
    """Images in luma and two chroma components, as in NTSC television."""
    return _recolored(images, _YIQ_OF_RGB)


def yiq_to_rgb(images: Any) -> Tensor:
    """Images from luma and two chroma components, as in NTSC television."""
    return _recolored(images, _RGB_OF_YIQ)


def rgb_to_yuv(images: Any) -> Tensor:
    """Images in luma and two chroma components, as in PAL television."""
    return _recolored(images, _YUV_OF_RGB)


def yuv_to_rgb(images: Any) -> Tensor:
    """Images from luma and two chroma components, as in PAL television."""
    return _recolored(images, _RGB_OF_YUV)
