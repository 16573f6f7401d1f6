"""Encoded images: JPEG, PNG, GIF and BMP to pixels and back, through Pillow. Host kernels."""

from __future__ import annotations

import io
import math
import zlib
from typing import Any

import numpy as np

from millrace.core import dtypes, errors
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext
from millrace.graph.tensor import Tensor
from millrace.ops.image import color as image_color
from millrace.ops.image import png_format
from millrace.ops.math import comparison
from millrace.ops.random import random
from millrace.ops.strings import strings
from millrace.ops.strings.string_arrays import strings as string_array
from millrace.platform import lazy_import, limits

Image = lazy_import.module("PIL.Image")
ImageSequence = lazy_import.module("PIL.ImageSequence")

__all__: list[str] = []

_UNKNOWN = "Unknown image file format. One of JPEG, JPEG XL, PNG, GIF, BMP, WebP required."
_BAD_JPEG = "jpeg::Uncompress failed. Invalid JPEG data or crop window."


def _format(content: bytes) -> str:
    """The format that the first bytes tell.

    Raises:
      ValueError: None that is known.
    """
    if not content:
        raise ValueError("Input is empty.")
    for start, name in ((b"\xff\xd8\xff", "JPEG"), (b"\x89PNG", "PNG"), (b"GIF8", "GIF")):
        if content.startswith(start):
            return name
    if content.startswith(b"BM"):
        return "BMP"
    if content.startswith(b"RIFF") and content[8:12] == b"WEBP":
        return "WebP"
    raise ValueError(_UNKNOWN)


def _single(contents: Any) -> bytes:
    if contents.ndim:
        raise ValueError(f"`contents` must be scalar but got shape{list(contents.shape)}")
    return bytes(contents.item())


def _check_channels(channels: int) -> None:
    if channels not in (0, 1, 3, 4):
        raise ValueError(f"`channels` must be 0, 1, 3 or 4 but got {channels}")


def _jpeg(
    content: bytes, channels: int, ratio: int = 1, recover: bool = False, window: Any = None
) -> Any:
    if channels == 4:
        raise ValueError("JPEG does not support 4 channels")
    if ratio not in (1, 2, 4, 8):
        raise ValueError(f"ratio must be 1, 2, 4, or 8, got {ratio}")
    try:
        image: Any = Image.open(io.BytesIO(content))
        mode = {1: "L", 3: "RGB"}.get(channels, "L" if image.mode == "L" else "RGB")
        width, height = image.size
        # Asked for a smaller size, the decoder scales while it transforms, as TensorFlow's does.
        image.draft(mode, (max(width // ratio, 1), max(height // ratio, 1)))
        wanted = (-(-width // ratio), -(-height // ratio))
        if image.size != wanted:
            image = image.convert(mode).resize(wanted, Image.Resampling.BOX)
        pixels = np.asarray(image if image.mode == mode else image.convert(mode))
    except Exception:
        if recover:
            raise ValueError(_BAD_JPEG + " (recovery of truncated images is not there)") from None
        raise ValueError(_BAD_JPEG) from None
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    if window is None:
        return pixels
    top, left, rows, columns = (int(v) for v in window)
    if (
        min(top, left) < 0
        or min(rows, columns) < 1
        or top + rows > pixels.shape[0]
        or left + columns > pixels.shape[1]
    ):
        raise ValueError(_BAD_JPEG)
    return pixels[top : top + rows, left : left + columns]


def _gray(pixels: Any) -> Any:
    """Brightness of colours, in the fixed-point arithmetic of libpng."""
    weights = np.array([9798, 19234, 3736], np.int64)
    return ((pixels[..., :3].astype(np.int64) @ weights) >> 15)[..., None].astype(pixels.dtype)


def _png(content: bytes, channels: int, dtype: Any) -> Any:
    try:
        deep = png_format.decode_deep(content)
        if deep is not None:
            pixels = deep
        else:
            image: Any = Image.open(io.BytesIO(content))
            if image.mode in ("1", "P", "PA"):
                transparent = image.mode == "PA" or "transparency" in image.info
                image = image.convert(
                    "L" if image.mode == "1" else "RGBA" if transparent else "RGB"
                )
            pixels = np.asarray(image)
            if pixels.dtype == np.int32:
                pixels = pixels.astype(np.uint16)
    except Exception:
        raise ValueError("Invalid PNG. Failed to initialize decoder.") from None
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    found = pixels.shape[-1]
    top = np.iinfo(pixels.dtype).max
    if channels == 1 and found != 1:
        pixels = pixels[..., :1] if found == 2 else _gray(pixels)
    elif channels >= 3:
        colors = np.repeat(pixels[..., :1], 3, axis=-1) if found <= 2 else pixels[..., :3]
        if channels == 4:
            alpha = pixels[..., -1:] if found in (2, 4) else np.full_like(pixels[..., :1], top)
            colors = np.concatenate([colors, alpha], axis=-1)
        pixels = colors
    return _scaled(pixels, dtype)


def _scaled(pixels: Any, dtype: Any) -> Any:
    """Pixels in uint8, uint16 or float32, from uint8 or uint16."""
    kind = np.dtype(dtype)
    if kind == pixels.dtype:
        return pixels
    if kind == np.float32:
        return pixels.astype(np.float32) / np.float32(np.iinfo(pixels.dtype).max)
    if kind == np.uint16:
        return pixels.astype(np.uint16) * np.uint16(257)
    return (pixels >> 8).astype(np.uint8)


def _gif(content: bytes) -> Any:
    try:
        image: Any = Image.open(io.BytesIO(content))
        frames: list[Any] = []
        for frame in ImageSequence.Iterator(image):
            # A frame of a few bytes has all pixels of the screen; they are stacked at the end.
            limits.check_array(len(frames) + 1, 6 * math.prod(image.size), "the frames of a GIF")
            frames.append(np.asarray(frame.convert("RGB")))
    except errors.ResourceExhaustedError:
        raise
    except Exception as error:
        raise ValueError(f"Invalid GIF data (size {len(content)}), {error}") from None
    return np.stack(frames)


def _bmp(content: bytes, channels: int) -> Any:
    if channels == 1:
        raise ValueError("`channels` must be 0, 3 or 4 for BMP, but got 1")
    try:
        image: Any = Image.open(io.BytesIO(content))
        mode = {3: "RGB", 4: "RGBA"}.get(channels, image.mode)
        if mode not in ("L", "RGB", "RGBA"):
            mode = "RGB"
        pixels = np.asarray(image.convert(mode))
    except Exception as error:
        raise ValueError(f"Invalid BMP data (size {len(content)}): {error}") from None
    return pixels[..., None] if pixels.ndim == 2 else pixels


def _still(content: bytes, channels: int, dtype: Any, op_name: str) -> Any:
    """One image of any format that DecodeJpeg, DecodePng and DecodeGif all accept."""
    kind = _format(content)
    if kind == "JPEG":
        return _scaled(_jpeg(content, channels), dtype)
    if kind == "PNG":
        return _png(content, channels, dtype)
    if kind == "GIF":
        frames = _gif(content)
        if len(frames) > 1:
            raise ValueError(
                f"Got {len(frames)} frames, but animated gifs can only be decoded by "
                "tf.io.decode_gif or tf.io.decode_image"
            )
        if channels not in (0, 3):
            raise ValueError(f"channels must be 0 or 3 for GIF, got {channels}")
        return _scaled(frames[0], dtype)
    if kind == "WebP":
        try:
            image: Any = Image.open(io.BytesIO(content))
            mode = {1: "L", 3: "RGB", 4: "RGBA"}.get(channels, image.mode)
            pixels = np.asarray(image.convert(mode))
        except Exception as error:
            raise ValueError(f"Invalid WebP data (size {len(content)}), {error}") from None
        return _scaled(pixels[..., None] if pixels.ndim == 2 else pixels, dtype)
    raise ValueError(
        "Trying to decode BMP format using a wrong op. Use `decode_bmp` or `decode_image` "
        f"instead. Op used: {op_name}"
    )


# -- Decoding --------------------------------------------------------------------------------------


def _decoded_shape(c: ShapeContext) -> TensorShape:
    c.shape("contents").assert_has_rank(0)
    channels = c.attr("channels")
    return TensorShape([None, None, channels or None])


_JPEG_OPTIONS = (
    "channels: int = 0; ratio: int = 1; fancy_upscaling: bool = true; "
    "try_recover_truncated: bool = false; acceptable_fraction: float = 1.0; "
    'dct_method: string = ""'
)


@op(
    f"DecodeJpeg(contents: string) -> image: uint8 where {_JPEG_OPTIONS}",
    shape=_decoded_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def DecodeJpeg(contents: Any, *, channels: int, ratio: int, try_recover_truncated: bool) -> Any:
    """The pixels of a JPEG file (or a PNG or GIF)."""
    content = _single(contents)
    _check_channels(channels)
    if ratio not in (1, 2, 4, 8):
        raise ValueError(f"ratio must be 1, 2, 4, or 8, got {ratio}")
    if _format(content) != "JPEG":
        return _still(content, channels, np.uint8, "DecodeJpeg")
    return _jpeg(content, channels, ratio, try_recover_truncated)


def _window_shape(c: ShapeContext) -> TensorShape:
    window = c.value("crop_window")
    height, width = (None, None) if window is None else (int(window[2]), int(window[3]))
    return TensorShape([height, width, c.attr("channels") or None])


@op(
    "DecodeAndCropJpeg(contents: string, crop_window: int32) -> image: uint8 where "
    f"{_JPEG_OPTIONS}",
    shape=_window_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def DecodeAndCropJpeg(
    contents: Any, crop_window: Any, *, channels: int, ratio: int, try_recover_truncated: bool
) -> Any:
    """A part of the pixels of a JPEG file."""
    if crop_window.shape != (4,):
        raise ValueError(f"crop_window must have 4 elements, got {list(crop_window.shape)}")
    _check_channels(channels)
    content = _single(contents)
    return _jpeg(content, channels, ratio, try_recover_truncated, crop_window)


@op(
    "DecodePng(contents: string) -> image: dtype where channels: int = 0; "
    "dtype: {uint8, uint16} = uint8",
    shape=_decoded_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def DecodePng(contents: Any, *, channels: int, dtype: Any) -> Any:
    """The pixels of a PNG file (or a JPEG or GIF)."""
    _check_channels(channels)
    return _still(_single(contents), channels, dtype.as_numpy_dtype, "DecodePng")


@op(
    "DecodeGif(contents: string) -> image: uint8",
    shape=lambda c: TensorShape([None, None, None, 3]),
    gradient=NO_GRADIENT,
    host=True,
)
def DecodeGif(contents: Any) -> Any:
    """The frames of a GIF file (or one frame from a JPEG or PNG)."""
    content = _single(contents)
    if _format(content) == "GIF":
        return _gif(content)
    return _still(content, 3, np.uint8, "DecodeGif")[None]


@op(
    "DecodeBmp(contents: string) -> image: uint8 where channels: int = 0",
    shape=_decoded_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def DecodeBmp(contents: Any, *, channels: int) -> Any:
    """The pixels of a BMP file."""
    _check_channels(channels)
    content = _single(contents)
    kind = _format(content)
    if kind != "BMP":
        raise ValueError(
            f"Trying to decode {kind} format using DecodeBmp op. Use `decode_{kind.lower()}` or "
            "`decode_image` instead."
        )
    return _bmp(content, channels)


@op(
    "DecodeImage(contents: string) -> image: dtype where channels: int = 0; "
    "dtype: {uint8, uint16, float32} = uint8; expand_animations: bool = true",
    shape=lambda c: (
        unknown_shape()
        if c.attr("expand_animations")
        else TensorShape([None, None, c.attr("channels") or None])
    ),
    gradient=NO_GRADIENT,
    host=True,
)
def DecodeImage(contents: Any, *, channels: int, dtype: Any, expand_animations: bool) -> Any:
    """The pixels of an image file, or the frames of a GIF."""
    _check_channels(channels)
    content = _single(contents)
    wanted = dtype.as_numpy_dtype
    kind = _format(content)
    if kind == "GIF":
        if channels not in (0, 3):
            raise ValueError(f"channels must be 0 or 3 for GIF, got {channels}")
        frames = _scaled(_gif(content), wanted)
        return frames if expand_animations else frames[0]
    if kind == "BMP":
        return _scaled(_bmp(content, channels), wanted)
    return _still(content, channels, wanted, "DecodeImage")


@op(
    "ExtractJpegShape(contents: string) -> image_shape: output_type where "
    "output_type: {int32, int64} = int32",
    shape=lambda c: TensorShape([3]),
    gradient=NO_GRADIENT,
    host=True,
)
def ExtractJpegShape(contents: Any, *, output_type: Any) -> Any:
    """Height, width and channels of a JPEG file, without decoding it."""
    content = _single(contents)
    try:
        image = Image.open(io.BytesIO(content), formats=["JPEG"])
    except Exception:
        raise ValueError(f"Invalid JPEG data, size {len(content)}") from None
    width, height = image.size
    return [height, width, len(image.getbands())]


# -- Encoding --------------------------------------------------------------------------------------


def _jpeg_bytes(pixels: Any, quality: int, **options: Any) -> bytes:
    channels = pixels.shape[-1]
    image = Image.fromarray(pixels[..., 0] if channels == 1 else pixels)
    stream = io.BytesIO()
    try:
        # Pillow takes quality 0 for "not given"; 1 is the least that a quantizer can do.
        image.save(stream, "JPEG", quality=max(quality, 1), **options)
    except Exception as error:
        raise errors.InternalError(None, None, f"JPEG encoding failed: {error}") from None
    return stream.getvalue()


def _rank_three(c: ShapeContext) -> TensorShape:
    c.shape(0).assert_has_rank(3)
    return TensorShape([])


@op(
    "EncodeJpeg(image: uint8) -> contents: string where "
    'format: {"", "grayscale", "rgb"} = ""; quality: int = 95; progressive: bool = false; '
    "optimize_size: bool = false; chroma_downsampling: bool = true; "
    'density_unit: {"in", "cm"} = "in"; x_density: int = 300; y_density: int = 300; '
    'xmp_metadata: string = ""',
    shape=_rank_three,
    gradient=NO_GRADIENT,
    host=True,
)
def EncodeJpeg(
    image: Any,
    *,
    format: bytes,
    quality: int,
    progressive: bool,
    optimize_size: bool,
    chroma_downsampling: bool,
    density_unit: bytes,
    x_density: int,
    y_density: int,
    xmp_metadata: bytes,
) -> Any:
    """Pixels as a JPEG file."""
    shown = str(list(image.shape)).replace(" ", "")
    if image.ndim != 3:
        raise ValueError(f"image must be 3-dimensional{shown}")
    if not 0 <= quality <= 100:
        raise ValueError(f"quality must be in [0,100], got {quality}")
    channels = image.shape[-1]
    if channels not in (1, 3) and format == b"":
        raise ValueError(f"image must have 1 or 3 channels, got {shown}")
    expected = {b"grayscale": 1, b"rgb": 3}.get(format, channels)
    if channels != expected:
        raise ValueError(f"format {format.decode()} expects {expected} channels, got {shown}")
    scale = 2.54 if density_unit == b"cm" else 1
    options: dict[str, Any] = {
        "progressive": progressive,
        "optimize": optimize_size,
        "dpi": (round(x_density * scale), round(y_density * scale)),
    }
    if channels == 3:
        options["subsampling"] = 2 if chroma_downsampling else 0
    if xmp_metadata:
        options["xmp"] = xmp_metadata
    return string_array([_jpeg_bytes(image, quality, **options)], ())


@op(
    "EncodeJpegVariableQuality(images: uint8, quality: int32) -> contents: string",
    shape=_rank_three,
    gradient=NO_GRADIENT,
    host=True,
)
def EncodeJpegVariableQuality(images: Any, quality: Any) -> Any:
    """Pixels as a JPEG file of a quality that is known when it runs."""
    level = int(quality)
    if not 0 <= level <= 100:
        raise ValueError(f"quality must be in [0,100], got {level}")
    if images.ndim != 3 or images.shape[-1] not in (1, 3):
        raise ValueError(f"image must have 1 or 3 channels, got {list(images.shape)}")
    return string_array([_jpeg_bytes(images, level)], ())


def _png_shape(c: ShapeContext) -> TensorShape:
    image = c.shape("image").with_rank_at_least(3)
    return image if image.ndims is None else image[:-3]


@op(
    "EncodePng(image: T) -> contents: string where compression: int = -1; "
    "T: {uint8, uint16} = uint8",
    shape=_png_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def EncodePng(image: Any, *, compression: int) -> Any:
    """Pixels as a PNG file; a batch as a file each."""
    if image.ndim < 3:
        raise ValueError(f"images must be at least rank 3{list(image.shape)}")
    if not image.size:
        raise ValueError(f"images cannot be empty, but got shape {list(image.shape)}")
    if not 1 <= image.shape[-1] <= 4:
        raise ValueError(f"image must have 1, 2, 3, or 4 channels, got {image.shape[-1]}")
    outer = image.shape[:-3]
    level = zlib.Z_DEFAULT_COMPRESSION if compression < 0 else min(compression, 9)
    batch = image.reshape(-1, *image.shape[-3:])
    return string_array([png_format.encode(pixels, level) for pixels in batch], outer)


# -- Public functions ------------------------------------------------------------------------------


def decode_jpeg(
    contents: Any,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
) -> Tensor:
    """The pixels of a JPEG file, uint8 [height, width, channels].

    Args:
      contents: The file's content.
      channels: 0 for as many as the file has, 1 or 3.
      ratio: By how much to make it smaller: 1, 2, 4 or 8.
      fancy_upscaling: Accepted; colours are always interpolated.
      try_recover_truncated: Accepted; an incomplete file is an error.
      acceptable_fraction: Accepted.
      dct_method: Accepted; the transform is always that of "INTEGER_ACCURATE" (TensorFlow's
        default is the fast one, whose pixels differ by up to 3).
      name: The operation's name.
    """
    return DecodeJpeg(
        contents,
        channels=channels,
        ratio=ratio,
        fancy_upscaling=fancy_upscaling,
        try_recover_truncated=try_recover_truncated,
        acceptable_fraction=float(acceptable_fraction),
        dct_method=dct_method,
        name=name,
    )


def decode_and_crop_jpeg(
    contents: Any,
    crop_window: Any,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
) -> Tensor:
    """The part (top, left, height, width) of a JPEG file; see `decode_jpeg`."""
    return DecodeAndCropJpeg(
        contents,
        crop_window,
        channels=channels,
        ratio=ratio,
        fancy_upscaling=fancy_upscaling,
        try_recover_truncated=try_recover_truncated,
        acceptable_fraction=float(acceptable_fraction),
        dct_method=dct_method,
        name=name,
    )


def decode_png(
    contents: Any, channels: int = 0, dtype: Any = dtypes.uint8, name: str | None = None
) -> Tensor:
    """The pixels of a PNG file, uint8 or uint16 [height, width, channels]."""
    return DecodePng(contents, channels=channels, dtype=dtype, name=name)


def decode_gif(contents: Any, name: str | None = None) -> Tensor:
    """The frames of a GIF file, uint8 [frames, height, width, 3]."""
    return DecodeGif(contents, name=name)


def decode_bmp(contents: Any, channels: int = 0, name: str | None = None) -> Tensor:
    """The pixels of a BMP file, uint8 [height, width, channels]."""
    return DecodeBmp(contents, channels=channels, name=name)


def decode_image(
    contents: Any,
    channels: int | None = None,
    dtype: Any = dtypes.uint8,
    name: str | None = None,
    expand_animations: bool = True,
) -> Tensor:
    """The pixels of an image file of any format; a GIF gives all of its frames.

    Args:
      contents: The file's content.
      channels: How many channels; as many as the file has when None.
      dtype: The type wanted; intensities are scaled to it.
      name: The name scope.
      expand_animations: Whether a GIF gives [frames, height, width, 3], else its first frame.
    """
    with name_scope(name, "decode_image"):
        kind = dtypes.as_dtype(dtype)
        direct = kind in (dtypes.float32, dtypes.uint8, dtypes.uint16)
        image: Tensor = DecodeImage(
            contents,
            channels=channels or 0,
            dtype=kind if direct else dtypes.uint16,
            expand_animations=expand_animations,
        )
        if not direct:
            image = image_color.convert_image_dtype(image, kind)
        if not expand_animations:
            image.set_shape([None, None, channels or None])
        return image


def encode_jpeg(
    image: Any,
    format: str = "",
    quality: int = 95,
    progressive: bool = False,
    optimize_size: bool = False,
    chroma_downsampling: bool = True,
    density_unit: str = "in",
    x_density: int = 300,
    y_density: int = 300,
    xmp_metadata: str = "",
    name: str | None = None,
) -> Tensor:
    """Pixels, uint8 [height, width, 1 or 3], as a JPEG file."""
    return EncodeJpeg(
        image,
        format=format,
        quality=quality,
        progressive=progressive,
        optimize_size=optimize_size,
        chroma_downsampling=chroma_downsampling,
        density_unit=density_unit,
        x_density=x_density,
        y_density=y_density,
        xmp_metadata=xmp_metadata,
        name=name,
    )


def encode_png(image: Any, compression: int = -1, name: str | None = None) -> Tensor:
    """Pixels, uint8 or uint16 [height, width, 1 to 4], as a PNG file."""
    return EncodePng(convert_to_tensor(image), compression=compression, name=name)


def extract_jpeg_shape(
    contents: Any, output_type: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    """Height, width and channels of a JPEG file, without decoding it."""
    return ExtractJpegShape(contents, output_type=output_type, name=name)


def is_jpeg(contents: Any, name: str | None = None) -> Tensor:
    """Whether a string is a JPEG file, by its first bytes."""
    with name_scope(name, "is_jpeg"):
        return comparison.equal(strings.substr(contents, 0, 3), b"\xff\xd8\xff", name=name)


def adjust_jpeg_quality(
    image: Any, jpeg_quality: Any, name: str | None = None, *, dct_method: str = ""
) -> Tensor:
    """The image as it looks after JPEG compression of a quality in [0, 100]."""
    with name_scope(name, "adjust_jpeg_quality", [image]):
        tensor = convert_to_tensor(image, name="image")
        channels = tensor.shape.as_list()[-1] or 0
        pixels = image_color.convert_image_dtype(tensor, dtypes.uint8, saturate=True)
        quality = convert_to_tensor(jpeg_quality, dtypes.int32)
        encoded = EncodeJpegVariableQuality(pixels, quality)
        decoded = decode_jpeg(encoded, channels=channels, dct_method=dct_method)
        return image_color.convert_image_dtype(decoded, tensor.dtype, saturate=True)


def random_jpeg_quality(
    image: Any, min_jpeg_quality: int, max_jpeg_quality: int, seed: int | None = None
) -> Tensor:
    """`adjust_jpeg_quality` by a random quality."""
    if not (0 <= min_jpeg_quality <= 100 and 0 <= max_jpeg_quality <= 100):
        raise ValueError("jpeg encoding range must be between 0 and 100.")
    if min_jpeg_quality >= max_jpeg_quality:
        raise ValueError("`min_jpeg_quality` must be less than `max_jpeg_quality`.")
    quality = random.random_uniform(
        [], min_jpeg_quality, max_jpeg_quality, seed=seed, dtype=dtypes.int32
    )
    return adjust_jpeg_quality(image, quality)
