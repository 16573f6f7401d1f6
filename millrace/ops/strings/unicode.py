"""Text as code points and back, between encodings, and in n-grams. Host kernels."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.dispatch import dispatched
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, unchanged
from millrace.graph.tensor import Tensor
from millrace.ops.array import shape as array_shape
from millrace.ops.math import numeric, reduction
from millrace.ops.strings.string_arrays import each, strings, text
from millrace.platform import limits

__all__: list[str] = []

_OUTPUT_ENCODINGS = {b"UTF-8": "utf-8", b"UTF-16-BE": "utf-16-be", b"UTF-32-BE": "utf-32-be"}
_TO = 'output_encoding: {"UTF-8", "UTF-16-BE", "UTF-32-BE"}; replacement_char: int = 65533'
_FROM = (
    'input_encoding: string; errors: {"strict", "replace", "ignore"} = "replace"; '
    "replacement_char: int = 65533; replace_control_characters: bool = false"
)


def _decoder(
    encoding: bytes, errors: bytes, replacement_char: int, replace_control_characters: bool
) -> Any:
    """A function from bytes to text, by the attributes that all decoding ops share."""
    source, mode, replacement = encoding.decode(), errors.decode(), chr(replacement_char)

    def decode(string: bytes) -> str:
        try:
            decoded = string.decode(source, mode)
        except LookupError:
            raise ValueError(
                f"Could not create converter for input encoding: {text(encoding)}"
            ) from None
        except UnicodeDecodeError:
            raise ValueError("Invalid formatting on input string") from None
        decoded = decoded.replace("\ufffd", replacement)
        if replace_control_characters:
            decoded = "".join(replacement if ord(c) < 0x20 or c == "\x7f" else c for c in decoded)
        return decoded

    return decode


@op(
    "UnicodeTranscode(input: string) -> output: string where input_encoding: string; "
    'output_encoding: {"UTF-8", "UTF-16-BE", "UTF-32-BE"}; '
    'errors: {"strict", "replace", "ignore"} = "replace"; replacement_char: int = 65533; '
    "replace_control_characters: bool = false",
    shape=unchanged,
    gradient=NO_GRADIENT,
    host=True,
)
def UnicodeTranscode(
    input: Any,
    *,
    input_encoding: bytes,
    output_encoding: bytes,
    errors: bytes,
    replacement_char: int,
    replace_control_characters: bool,
) -> Any:
    """Text in another encoding."""
    decode = _decoder(input_encoding, errors, replacement_char, replace_control_characters)
    target = _OUTPUT_ENCODINGS[output_encoding]
    return each(input, lambda s: decode(s).encode(target))


@dispatched
def unicode_transcode(
    input: Any,
    input_encoding: str,
    output_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> Tensor:
    """`tf.strings.unicode_transcode`: text from one encoding to another."""
    return UnicodeTranscode(
        input,
        input_encoding=input_encoding,
        output_encoding=output_encoding,
        errors=errors,
        replacement_char=replacement_char,
        replace_control_characters=replace_control_characters,
        name=name,
    )


def _decode_shape(c: ShapeContext) -> list[TensorShape]:
    shape = c.shape("input")
    count = shape.num_elements() if shape.is_fully_defined() else None
    splits = TensorShape([None if count is None else count + 1])
    return [splits] + [TensorShape([None])] * (c.output_count - 1)


def _code_points(array: Any, decode: Any) -> tuple[list[int], list[int], list[str]]:
    rows = [decode(s) for s in array.ravel().tolist()]
    splits = np.cumsum([0, *map(len, rows)]).tolist()
    return splits, [ord(char) for row in rows for char in row], rows


@op(
    "UnicodeDecode(input: string) -> (row_splits: Tsplits, char_values: int32) where "
    f"{_FROM}; Tsplits: index = int64",
    shape=_decode_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def UnicodeDecode(
    input: Any,
    *,
    input_encoding: bytes,
    errors: bytes,
    replacement_char: int,
    replace_control_characters: bool,
) -> Any:
    """The code points of all strings in a row, and where each string's begin."""
    decode = _decoder(input_encoding, errors, replacement_char, replace_control_characters)
    splits, points, _ = _code_points(input, decode)
    return splits, points


@op(
    "UnicodeDecodeWithOffsets(input: string) -> "
    "(row_splits: Tsplits, char_values: int32, char_to_byte_starts: int64) where "
    f"{_FROM}; Tsplits: index = int64",
    shape=_decode_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def UnicodeDecodeWithOffsets(
    input: Any,
    *,
    input_encoding: bytes,
    errors: bytes,
    replacement_char: int,
    replace_control_characters: bool,
) -> Any:
    """As UnicodeDecode, and the byte in its string at which each code point begins."""
    decode = _decoder(input_encoding, errors, replacement_char, replace_control_characters)
    splits, points, _ = _code_points(input, decode)
    starts: list[int] = []
    encoding = input_encoding.decode()
    for string in input.ravel().tolist():
        # Bytes that decode to nothing or to a replacement keep their own width this way.
        position = 0
        while position < len(string):
            width = 1
            while True:
                try:
                    string[position : position + width].decode(encoding)
                    break
                except UnicodeDecodeError:
                    width += 1
                    if width > 4 or position + width > len(string):
                        width = 0
                        break
            if width or errors == b"replace":
                starts.append(position)
            position += width or 1
    return splits, points, starts[: len(points)]


@op(
    "UnicodeEncode(input_values: int32, input_splits: Tsplits) -> output: string where "
    f'errors: {{"ignore", "replace", "strict"}} = "replace"; {_TO}; Tsplits: index = int64',
    shape=lambda c: _encoded_shape(c),
    gradient=NO_GRADIENT,
    host=True,
)
def UnicodeEncode(
    input_values: Any,
    input_splits: Any,
    *,
    errors: bytes,
    output_encoding: bytes,
    replacement_char: int,
) -> Any:
    """Strings of code points."""
    target = _OUTPUT_ENCODINGS[output_encoding]
    points: list[str] = []
    kept: list[int] = [0]
    for point in input_values.tolist():
        if not 0 <= point < 0x110000 or 0xD800 <= point < 0xE000:
            if errors == b"strict":
                raise ValueError("Code point is out of range for Unicode, or is a surrogate.")
            points.append("" if errors == b"ignore" else chr(replacement_char))
        else:
            points.append(chr(point))
        kept.append(len(points))
    bounds = input_splits.tolist()
    if bounds[0] != 0 or bounds[-1] > len(points) or bounds != sorted(bounds):
        raise ValueError(f"Values in input_splits must be sorted and end within {len(points)}.")
    return strings("".join(points[a:b]).encode(target) for a, b in itertools.pairwise(bounds))


def _encoded_shape(c: ShapeContext) -> TensorShape:
    splits = c.shape("input_splits").with_rank(1)
    size = splits.sizes[0] if splits.sizes else None
    return TensorShape([None if size is None else size - 1])


def unicode_encode(
    input: Any,
    output_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    name: str | None = None,
) -> Tensor:
    """`tf.strings.unicode_encode`: strings of the code points along the last dimension."""
    options = {
        "output_encoding": output_encoding,
        "errors": errors,
        "replacement_char": replacement_char,
    }
    with name_scope(name, "UnicodeEncode", [input]):
        points = convert_to_tensor(input, dtypes.int32)
        if points.shape.ndims is None:
            raise ValueError("Rank of input must be statically known.")
        if points.shape.ndims == 0:
            raise ValueError("input_tensor's rank must be at least 1.")
        sizes: Any = array_shape.shape(points, out_type=dtypes.int64)
        flat = array_shape.reshape(points, [-1])
        rows: Any = reduction.reduce_prod(sizes[:-1])
        splits = numeric.range(rows + 1) * sizes[-1]
        with name_scope(None, "UnicodeEncode"):
            encoded = UnicodeEncode(flat, splits, **options)
        if points.shape.ndims == 2:
            return encoded
        return array_shape.reshape(encoded, sizes[:-1])


def _check_ngrams(words: list[bytes], separator: bytes, widths: list[int], padding: int) -> None:
    """Checks that what comes of the words fits: each is in as many results as one is wide."""
    size = sum(map(len, words)) + len(words) * len(separator) + padding
    limits.STRING_BYTES.check(size * sum(widths), "Bytes of the joined strings")


def _ngrams_shape(c: ShapeContext) -> list[TensorShape]:
    return [unknown_shape(1), c.shape("data_splits")]


@op(
    "StringNGrams(data: string, data_splits: Tsplits) -> "
    "(ngrams: string, ngrams_splits: Tsplits) where separator: string; "
    "ngram_widths: list(int) >= 0; left_pad: string; right_pad: string; pad_width: int; "
    "preserve_short_sequences: bool; Tsplits: index = int64",
    shape=_ngrams_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def StringNGrams(
    data: Any,
    data_splits: Any,
    *,
    separator: bytes,
    ngram_widths: list[int],
    left_pad: bytes,
    right_pad: bytes,
    pad_width: int,
    preserve_short_sequences: bool,
) -> Any:
    """Runs of neighbouring strings of each row, joined."""
    words, bounds = data.tolist(), data_splits.tolist()
    if bounds and (bounds[0] != 0 or bounds[-1] != len(words)):
        raise ValueError(
            f"First split value must be 0 and last split value must be data size. "
            f"Expected {len(words)}, got {bounds[-1]}"
        )
    _check_ngrams(words, separator, ngram_widths, len(bounds) * max(len(left_pad), len(right_pad)))
    result: list[bytes] = []
    splits = [0]
    for begin, end in itertools.pairwise(bounds):
        row = words[begin:end]
        made = 0
        for width in ngram_widths:
            pad = width - 1 if pad_width < 0 else min(pad_width, width - 1)
            padded = [left_pad] * pad + row + [right_pad] * pad
            grams = [separator.join(padded[i : i + width]) for i in range(len(padded) - width + 1)]
            result.extend(grams)
            made += len(grams)
        if preserve_short_sequences and not made and row:
            pad = min(pad_width, max(ngram_widths, default=1) - 1) if pad_width >= 0 else 0
            result.append(separator.join([left_pad] * pad + row + [right_pad] * pad))
        splits.append(len(result))
    return strings(result), splits
