"""String ops: join, split, cut, match, change case, encode, and hash into buckets.

All kernels run on the host: a string tensor is an object array of `bytes`.
"""

from __future__ import annotations

import base64
import itertools
import re
from array import array
from collections.abc import Iterable
from typing import Any

import numpy as np

from millrace.core import dtypes, errors, pieces
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.dispatch import dispatched
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import (
    ShapeContext,
    broadcast_shapes,
    reduction,
    unchanged,
)
from millrace.graph.slices import SparseTensor
from millrace.graph.tensor import Tensor
from millrace.ops.array import constant
from millrace.ops.array import shape as array_shape
from millrace.ops.math import numeric
from millrace.ops.strings import fingerprint
from millrace.ops.strings import regular_expressions as expressions
from millrace.ops.strings.string_arrays import each, strings, text
from millrace.platform import limits

__all__ = [
    "decode_base64",
    "encode_base64",
    "reduce_join",
    "regex_replace",
    "string_join",
    "string_split",
    "string_strip",
    "string_to_hash_bucket",
    "string_to_hash_bucket_fast",
    "string_to_hash_bucket_strong",
    "substr",
]

_CONTINUATION = re.compile(rb"[\x80-\xBF]")


# -- Joining -------------------------------------------------------------------------------


def _join_shape(c: ShapeContext) -> TensorShape:
    shape = TensorShape([])
    for each_shape in c.shapes("inputs"):
        if each_shape.ndims is None:
            shape = unknown_shape() if shape.ndims == 0 or shape.ndims is None else shape
        elif each_shape.ndims != 0:
            shape = each_shape if not shape.ndims else shape.merge_with(each_shape)
    return shape


@op(
    'StringJoin(inputs: N*string) -> output: string where N: int >= 0; separator: string = ""',
    shape=_join_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def StringJoin(inputs: list[Any], *, separator: bytes) -> Any:
    """Strings joined element by element; scalars go with every element."""
    shape: tuple[int, ...] = ()
    for item in inputs:
        if item.ndim == 0:
            continue
        if shape and item.shape != shape:
            raise ValueError(f"Input shapes do not match: {list(shape)} vs. {list(item.shape)}")
        shape = item.shape
    count = int(np.prod(shape))
    columns = [
        itertools.repeat(item.item(), count) if item.ndim == 0 else item.ravel().tolist()
        for item in inputs
    ]
    if not columns:
        return strings([b""], ())
    return strings([separator.join(row) for row in zip(*columns, strict=True)], shape)


@dispatched
def string_join(inputs: Any, separator: Any = "", name: str | None = None) -> Tensor:
    """Joins strings element by element, with a separator between them."""
    return StringJoin(list(inputs), separator=separator, name=name)


@op(
    "ReduceJoin(inputs: string, reduction_indices: int32) -> output: string where "
    'keep_dims: bool = false; separator: string = ""',
    shape=reduction,
    gradient=NO_GRADIENT,
    host=True,
)
def ReduceJoin(inputs: Any, reduction_indices: Any, *, keep_dims: bool, separator: bytes) -> Any:
    """Strings joined along the first dimension named, the results along the next, and so on."""
    axes = []
    for axis in np.ravel(reduction_indices).tolist():
        if not -inputs.ndim <= axis < inputs.ndim:
            raise errors.OutOfRangeError(
                None,
                None,
                f"Invalid reduction dimension {axis} for input with {inputs.ndim} dimension(s)",
            )
        axes.append(axis % inputs.ndim)
    for axis in axes:
        if axes.count(axis) > 1:
            raise ValueError(f"Duplicate reduction dimension {axis}")
    if not axes:
        return inputs
    kept = [i for i in range(inputs.ndim) if i not in axes]
    count = int(np.prod([inputs.shape[i] for i in axes]))
    rows = inputs.transpose(kept + axes[::-1]).reshape(-1, count) if inputs.size else []
    if keep_dims:
        shape = tuple(1 if i in axes else size for i, size in enumerate(inputs.shape))
    else:
        shape = tuple(inputs.shape[i] for i in kept)
    joined = (
        [pieces.join(separator, row) for row in rows] if len(rows) else [b""] * int(np.prod(shape))
    )
    return strings(joined, shape)


def reduce_join(
    inputs: Any,
    axis: Any = None,
    keep_dims: bool | None = None,
    separator: Any = "",
    name: str | None = None,
    reduction_indices: Any = None,
    keepdims: bool | None = None,
) -> Tensor:
    """Joins strings along dimensions.

    Args:
      inputs: The strings.
      axis: The dimensions, joined in the order given; all, the last one first, when None.
      keep_dims: The old name of `keepdims`.
      separator: Put between the strings.
      name: The operation's name.
      reduction_indices: The old name of `axis`.
      keepdims: Whether joined dimensions stay, with size 1.

    Raises:
      ValueError: Both names of an argument are given.
    """
    keepdims = _either(keepdims, keep_dims, "keepdims", "keep_dims")
    axis = _either(axis, reduction_indices, "axis", "reduction_indices")
    with name_scope(None, "ReduceJoin", [inputs, axis]):
        values = convert_to_tensor(inputs)
        if axis is None:
            rank = values.shape.ndims
            if rank is not None:
                axis = constant.constant(np.arange(rank - 1, -1, -1), dtypes.int32)
            else:
                last: Any = array_shape.rank(values)
                axis = numeric.range(last - 1, -1, -1)
        return ReduceJoin(values, axis, keep_dims=bool(keepdims), separator=separator, name=name)


def _either(new: Any, old: Any, new_name: str, old_name: str) -> Any:
    if old is None:
        return new
    if new is not None:
        raise ValueError(f"Cannot specify both '{old_name}' and '{new_name}'.")
    return old


def _segment_join_shape(c: ShapeContext) -> TensorShape:
    inputs, ids = c.shape("inputs"), c.shape("segment_ids")
    count = c.value("num_segments")
    if inputs.ndims is None or ids.ndims is None:
        return unknown_shape()
    return TensorShape([None if count is None else int(count)]).concatenate(inputs[ids.ndims :])


@op(
    "UnsortedSegmentJoin(inputs: string, segment_ids: Tindices, num_segments: Tnumsegments) -> "
    'output: string where separator: string = ""; Tindices: index; Tnumsegments: index = int32',
    shape=_segment_join_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def UnsortedSegmentJoin(
    inputs: Any, segment_ids: Any, num_segments: Any, *, separator: bytes
) -> Any:
    """Strings joined by segment; a negative segment drops its strings."""
    count = int(num_segments)
    if count < 0:
        raise ValueError("Number of segments should be a scalar and non-negative")
    if inputs.shape[: segment_ids.ndim] != segment_ids.shape:
        raise ValueError(
            f"Segment_id at index 0 should be equal to the shape of input: "
            f"{list(segment_ids.shape)} vs. {list(inputs.shape)}"
        )
    tail = inputs.shape[segment_ids.ndim :]
    rows = inputs.reshape(segment_ids.size, -1) if inputs.size else np.empty((0, 0), object)
    width = int(np.prod(tail))
    parts: list[list[list[bytes]]] = [[[] for _ in range(width)] for _ in range(count)]
    for segment, row in zip(segment_ids.ravel().tolist(), rows, strict=False):
        if segment >= count:
            raise ValueError(f"segment_ids should be < {count}, found {segment}")
        if segment >= 0:
            for cell, value in zip(parts[segment], row, strict=True):
                cell.append(value)
    return strings([pieces.join(separator, cell) for row in parts for cell in row], (count, *tail))


def unsorted_segment_join(
    inputs: Any, segment_ids: Any, num_segments: Any, separator: Any = "", name: str | None = None
) -> Tensor:
    """Joins strings that have the same segment."""
    return UnsortedSegmentJoin(inputs, segment_ids, num_segments, separator=separator, name=name)


# -- Splitting -----------------------------------------------------------------------------


def _sparse_split_shape(c: ShapeContext) -> list[TensorShape]:
    c.shape(0).assert_has_rank(1)
    c.shape(1).assert_has_rank(0)
    return [TensorShape([None, 2]), TensorShape([None]), TensorShape([2])]


def _as_sparse(rows: Iterable[Iterable[bytes]]) -> tuple[Any, Any, Any]:
    """Rows of different lengths as the parts of a sparse matrix."""
    words: list[bytes] = []
    ends = array("q", [0])
    for row in rows:
        words.extend(row)
        ends.append(len(words))
    starts = np.frombuffer(ends, np.int64)
    lengths = np.diff(starts)
    indices = np.empty((len(words), 2), np.int64)
    indices[:, 0] = np.repeat(np.arange(len(lengths)), lengths)
    indices[:, 1] = np.arange(len(words)) - np.repeat(starts[:-1], lengths)
    return indices, strings(words), np.array([len(lengths), max(lengths, default=0)], np.int64)


_SPACES = b" \t\n\r\v\f"


def _check_pieces(cuts: Iterable[int]) -> None:
    """Checks that strings with so many cuts each do not fall into too many pieces."""
    limits.STRING_ELEMENTS.check(sum(cuts), "Pieces of the strings that are split")


@op(
    "StringSplit(input: string, delimiter: string) -> "
    "(indices: int64, values: string, shape: int64) where skip_empty: bool = true",
    shape=_sparse_split_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def StringSplit(input: Any, delimiter: Any, *, skip_empty: bool) -> Any:
    """Splits at every byte that is in the delimiter; into bytes when it is empty."""
    if input.ndim != 1:
        raise ValueError(f"input must be a vector, got shape: {list(input.shape)}")
    if delimiter.ndim != 0:
        raise ValueError(f"delimiter must be a scalar, got shape: {list(delimiter.shape)}")
    marks = delimiter.item()
    rows: Iterable[Iterable[bytes]]
    _check_pieces(len(s) - len(s.translate(None, marks)) if marks else len(s) for s in input)
    if not marks:
        rows = ((s[i : i + 1] for i in range(len(s))) for s in input)
    else:
        # One mark stands for all of them.
        mark = marks[:1]
        same = bytes.maketrans(marks, mark * len(marks)) if len(marks) > 1 else None
        rows = (
            pieces.split(s if same is None else s.translate(same), mark) if s else () for s in input
        )
    if skip_empty:
        return _as_sparse((word for word in row if word) for row in rows)
    return _as_sparse(rows)


@op(
    "StringSplitV2(input: string, sep: string) -> "
    "(indices: int64, values: string, shape: int64) where maxsplit: int = -1",
    shape=_sparse_split_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def StringSplitV2(input: Any, sep: Any, *, maxsplit: int) -> Any:
    """Splits at a separator; at runs of white space when it is empty."""
    if sep.ndim != 0:
        raise ValueError(f"sep must be a scalar, got shape: {list(sep.shape)}")
    mark = sep.item()
    if maxsplit < 0:
        _check_pieces(
            s.count(mark) if mark else len(s) - len(s.translate(None, _SPACES)) for s in input
        )
    if mark:
        if maxsplit < 0:
            return _as_sparse(pieces.split(s, mark) for s in input)
        return _as_sparse(s.split(mark, maxsplit) for s in input)
    if maxsplit < 0:
        return _as_sparse(s.split() for s in input)
    return _as_sparse(_split_at_spaces(s, maxsplit) for s in input)


def _split_at_spaces(string: bytes, limit: int) -> list[bytes]:
    """At most `limit` splits.

    A remainder counts as a word even when nothing but white space is left, as in TensorFlow.
    """
    rest = string.lstrip()
    words: list[bytes] = []
    while rest and len(words) < limit:
        word = rest.split(None, 1)[0]
        words.append(word)
        rest = rest[len(word) :].lstrip()
    if len(words) == limit and string.strip():
        words.append(rest)
    return words


def string_split(
    source: Any,
    sep: Any = None,
    skip_empty: bool = True,
    delimiter: Any = None,
    result_type: str = "SparseTensor",
    name: str | None = None,
) -> SparseTensor:
    """Splits each string of a vector into a row of a SparseTensor.

    Args:
      source: A vector of strings.
      sep: Bytes at each of which to split; " " when None. Empty: into single bytes.
      skip_empty: Whether empty words are left out.
      delimiter: The old name of `sep`.
      result_type: "SparseTensor", the only one there is.
      name: The name scope.
    """
    _check_result_type(result_type)
    with name_scope(name, "StringSplit", [source]):
        delimiter = _either(sep, delimiter, "sep", "delimiter")
        marks = convert_to_tensor(" " if delimiter is None else delimiter, dtypes.string)
        words = convert_to_tensor(source, dtypes.string)
        return SparseTensor(*StringSplit(words, marks, skip_empty=skip_empty))


def split(
    input: Any = None,
    sep: Any = None,
    maxsplit: int = -1,
    result_type: str = "SparseTensor",
    source: Any = None,
    name: str | None = None,
) -> SparseTensor:
    """`tf.strings.split`: splits at a separator, or at white space, as Python's `str.split`."""
    _check_result_type(result_type)
    given = _either(input, source, "input", "source")
    with name_scope(name, "StringSplit", [given]):
        words = convert_to_tensor(given, dtypes.string, name="input")
        if words.shape.ndims == 0:
            words = array_shape.expand_dims(words, 0)
        mark = convert_to_tensor("" if sep is None else sep, dtypes.string)
        return SparseTensor(*StringSplitV2(words, mark, maxsplit=maxsplit))


def _check_result_type(result_type: str) -> None:
    if result_type != "SparseTensor":
        raise ValueError(
            f"result_type must be 'SparseTensor' (ragged tensors are not there), got "
            f"{result_type!r}"
        )


# -- Cutting, measuring, changing ------------------------------------------------------------


def _substr_shape(c: ShapeContext) -> TensorShape:
    words, pos, length = c.shape("input"), c.shape("pos"), c.shape("len")
    if pos.ndims is not None and length.ndims is not None and pos.ndims != length.ndims:
        raise ValueError(f"Shape must be rank {length.ndims} but is rank {pos.ndims}")
    merged = pos.merge_with(length)
    return broadcast_shapes(words, merged)


@op(
    "Substr(input: string, pos: T, len: T) -> output: string where T: index; "
    'unit: {"BYTE", "UTF8_CHAR"} = "BYTE"',
    shape=_substr_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def Substr(input: Any, pos: Any, len: Any, *, unit: bytes) -> Any:
    """Parts of strings; a negative position counts from the end."""
    try:
        words, begins, counts = np.broadcast_arrays(input, pos, len)
    except ValueError:
        raise ValueError(
            f"Incompatible shapes: {list(input.shape)} vs. {list(pos.shape)}"
        ) from None
    result = []
    columns = (column.ravel().tolist() for column in (words, begins, counts))
    for i, (word, begin, count) in enumerate(zip(*columns, strict=True)):
        units: Any = word if unit == b"BYTE" else _characters(word)
        size = units.__len__()
        if not -size <= begin <= size:
            shown = f" {word!r}" if unit == b"BYTE" else ""
            raise ValueError(f"pos {begin} out of range for string{shown} at index {i}")
        first = begin + size if begin < 0 else begin
        # A negative count is a very large one: TensorFlow's is unsigned.
        part = units[first:] if count < 0 else units[first : first + count]
        result.append(part if unit == b"BYTE" else b"".join(part))
    return strings(result, words.shape)


def _characters(string: bytes) -> list[bytes]:
    """The UTF-8 characters of a string."""
    starts = [i for i, byte in enumerate(string) if byte & 0xC0 != 0x80]
    return [string[a:b] for a, b in zip(starts, [*starts[1:], len(string)], strict=True)]


@dispatched
def substr(input: Any, pos: Any, len: Any, name: str | None = None, unit: str = "BYTE") -> Tensor:
    """The part of each string that begins at `pos` and has `len` bytes or characters."""
    return Substr(input, pos, len, unit=unit, name=name)


@op(
    'StringLength(input: string) -> output: int32 where unit: {"BYTE", "UTF8_CHAR"} = "BYTE"',
    shape=unchanged,
    gradient=NO_GRADIENT,
    host=True,
)
def StringLength(input: Any, *, unit: bytes) -> Any:
    """Lengths in bytes or characters."""
    words = input.ravel().tolist()
    if unit == b"UTF8_CHAR":
        words = [_CONTINUATION.sub(b"", word) for word in words]
    return np.array([len(word) for word in words], np.int32).reshape(input.shape)


@dispatched
def string_length(input: Any, name: str | None = None, unit: str = "BYTE") -> Tensor:
    """`tf.strings.length`: the length of each string."""
    return StringLength(input, unit=unit, name=name)


@op(
    "StringStrip(input: string) -> output: string",
    shape=unchanged,
    gradient=NO_GRADIENT,
    host=True,
)
def StringStrip(input: Any) -> Any:
    """Strings without white space at their ends."""
    return each(input, bytes.strip)


@dispatched
def string_strip(input: Any, name: str | None = None) -> Tensor:
    """Strings without white space at their ends."""
    return StringStrip(input, name=name)


def _changed_case(array: Any, encoding: bytes, method: str) -> Any:
    if encoding == b"":
        return each(array, getattr(bytes, method))
    if encoding != b"utf-8":
        raise ValueError(f"only utf-8 or '' (no encoding) is supported, received {text(encoding)}")
    change = getattr(str, method)
    return each(array, lambda s: change(s.decode("utf-8", "replace")).encode())


@op(
    'StringLower(input: string) -> output: string where encoding: string = ""',
    shape=unchanged,
    gradient=NO_GRADIENT,
    host=True,
)
def StringLower(input: Any, *, encoding: bytes) -> Any:
    """Lower case, of ASCII letters only unless an encoding is given."""
    return _changed_case(input, encoding, "lower")


@op(
    'StringUpper(input: string) -> output: string where encoding: string = ""',
    shape=unchanged,
    gradient=NO_GRADIENT,
    host=True,
)
def StringUpper(input: Any, *, encoding: bytes) -> Any:
    """Upper case, of ASCII letters only unless an encoding is given."""
    return _changed_case(input, encoding, "upper")


@dispatched
def string_lower(input: Any, encoding: str = "", name: str | None = None) -> Tensor:
    """`tf.strings.lower`."""
    return StringLower(input, encoding=encoding, name=name)


@dispatched
def string_upper(input: Any, encoding: str = "", name: str | None = None) -> Tensor:
    """`tf.strings.upper`."""
    return StringUpper(input, encoding=encoding, name=name)


# -- Regular expressions ---------------------------------------------------------------------


@op(
    "StaticRegexFullMatch(input: string) -> output: bool where pattern: string",
    shape=unchanged,
    gradient=NO_GRADIENT,
    host=True,
)
def StaticRegexFullMatch(input: Any, *, pattern: bytes) -> Any:
    """Whether each whole string matches a pattern that is part of the graph."""
    return _full_matches(input, pattern)


def _pattern_shape(c: ShapeContext) -> TensorShape:
    for i in range(1, len(c.inputs)):
        c.shape(i).assert_has_rank(0)
    return c.shape(0)


@op(
    "RegexFullMatch(input: string, pattern: string) -> output: bool",
    shape=_pattern_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def RegexFullMatch(input: Any, pattern: Any) -> Any:
    """Whether each whole string matches."""
    if pattern.ndim:
        raise ValueError(f"Pattern must be scalar, but received {list(pattern.shape)}")
    return _full_matches(input, pattern.item())


def _full_matches(array: Any, pattern: bytes) -> Any:
    compiled = expressions.compile_pattern(pattern)
    found = [expressions.full_match(compiled, s) for s in array.ravel().tolist()]
    return np.array(found, bool).reshape(array.shape)


@op(
    "StaticRegexReplace(input: string) -> output: string where pattern: string; "
    "rewrite: string; replace_global: bool = true",
    shape=unchanged,
    gradient=NO_GRADIENT,
    host=True,
)
def StaticRegexReplace(input: Any, *, pattern: bytes, rewrite: bytes, replace_global: bool) -> Any:
    """Matches of a pattern that is part of the graph, rewritten."""
    compiled = expressions.compile_pattern(pattern)
    return each(input, lambda s: expressions.replace(compiled, rewrite, s, replace_global))


@op(
    "RegexReplace(input: string, pattern: string, rewrite: string) -> output: string where "
    "replace_global: bool = true",
    shape=_pattern_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def RegexReplace(input: Any, pattern: Any, rewrite: Any, *, replace_global: bool) -> Any:
    """Matches rewritten."""
    for value, label in ((pattern, "Pattern"), (rewrite, "Rewrite")):
        if value.ndim:
            raise ValueError(f"{label} must be scalar, but received {list(value.shape)}")
    compiled = expressions.compile_pattern(pattern.item())
    target = rewrite.item()
    return each(input, lambda s: expressions.replace(compiled, target, s, replace_global))


@dispatched
def regex_full_match(input: Any, pattern: Any, name: str | None = None) -> Tensor:
    """`tf.strings.regex_full_match`: whether each whole string matches the pattern."""
    if isinstance(pattern, str | bytes):
        return StaticRegexFullMatch(input, pattern=pattern, name=name)
    return RegexFullMatch(input, pattern, name=name)


@dispatched
def regex_replace(
    input: Any, pattern: Any, rewrite: Any, replace_global: bool = True, name: str | None = None
) -> Tensor:
    """Replaces matches of `pattern` by `rewrite`, in which ``\\1`` names the first group."""
    if isinstance(pattern, str | bytes) and isinstance(rewrite, str | bytes):
        return StaticRegexReplace(
            input, pattern=pattern, rewrite=rewrite, replace_global=replace_global, name=name
        )
    return RegexReplace(input, pattern, rewrite, replace_global=replace_global, name=name)


# -- Hash buckets ----------------------------------------------------------------------------


@op(
    "StringToHashBucketFast(input: string) -> output: int64 where num_buckets: int >= 1",
    shape=unchanged,
    gradient=NO_GRADIENT,
    host=True,
)
def StringToHashBucketFast(input: Any, *, num_buckets: int) -> Any:
    """Fingerprints modulo the number of buckets."""
    hashes = fingerprint.fingerprint64(input.ravel().tolist())
    return (hashes % np.uint64(num_buckets)).astype(np.int64).reshape(input.shape)


@op(
    "StringToHashBucket(string_tensor: string) -> output: int64 where num_buckets: int >= 1",
    shape=unchanged,
    gradient=NO_GRADIENT,
    host=True,
)
def StringToHashBucket(string_tensor: Any, *, num_buckets: int) -> Any:
    """Hashes modulo the number of buckets."""
    hashes = [fingerprint.murmur64(s) % num_buckets for s in string_tensor.ravel().tolist()]
    return np.array(hashes, np.int64).reshape(string_tensor.shape)


@op(
    "StringToHashBucketStrong(input: string) -> output: int64 where num_buckets: int >= 1; "
    "key: list(int)",
    shape=unchanged,
    gradient=NO_GRADIENT,
    host=True,
)
def StringToHashBucketStrong(input: Any, *, num_buckets: int, key: list[int]) -> Any:
    """Keyed hashes modulo the number of buckets."""
    if len(key) != 2:
        raise ValueError("Key must have 2 elements")
    pair = (key[0], key[1])
    hashes = [fingerprint.siphash(s, pair) % num_buckets for s in input.ravel().tolist()]
    return np.array(hashes, np.int64).reshape(input.shape)


@dispatched
def string_to_hash_bucket_fast(input: Any, num_buckets: int, name: str | None = None) -> Tensor:
    """The bucket of each string by its fingerprint, which never changes between releases."""
    return StringToHashBucketFast(input, num_buckets=num_buckets, name=name)


@dispatched
def string_to_hash_bucket(
    string_tensor: Any = None,
    num_buckets: int | None = None,
    name: str | None = None,
    input: Any = None,
) -> Tensor:
    """The bucket of each string; prefer `string_to_hash_bucket_fast`."""
    given = _either(input, string_tensor, "input", "string_tensor")
    return StringToHashBucket(given, num_buckets=num_buckets, name=name)


@dispatched
def string_to_hash_bucket_strong(
    input: Any, num_buckets: int, key: Any, name: str | None = None
) -> Tensor:
    """The bucket of each string by a keyed hash, which nobody without the key can aim at."""
    return StringToHashBucketStrong(input, num_buckets=num_buckets, key=key, name=name)


# -- Encodings -------------------------------------------------------------------------------


@op(
    "EncodeBase64(input: string) -> output: string where pad: bool = false",
    shape=unchanged,
    gradient=NO_GRADIENT,
    host=True,
)
def EncodeBase64(input: Any, *, pad: bool) -> Any:
    """Web-safe base64."""
    if pad:
        return each(input, base64.urlsafe_b64encode)
    return each(input, lambda s: base64.urlsafe_b64encode(s).rstrip(b"="))


@op(
    "DecodeBase64(input: string) -> output: string",
    shape=unchanged,
    gradient=NO_GRADIENT,
    host=True,
)
def DecodeBase64(input: Any) -> Any:
    """What web-safe base64 stands for, padded or not."""
    return each(input, _from_base64)


def _from_base64(string: bytes) -> bytes:
    body = string[:-2].rstrip(b"=") + string[-2:].rstrip(b"=")
    if len(body) % 4 == 1:
        raise ValueError("Base64 string length cannot be 1 modulo 4.")
    if not re.fullmatch(rb"[0-9A-Za-z_-]*", body):
        raise ValueError("Invalid character found in base64.")
    return base64.urlsafe_b64decode(body + b"=" * (-len(body) % 4))


@dispatched
def encode_base64(input: Any, pad: bool = False, name: str | None = None) -> Tensor:
    """Strings in web-safe base64."""
    return EncodeBase64(input, pad=pad, name=name)


@dispatched
def decode_base64(input: Any, name: str | None = None) -> Tensor:
    """Strings from web-safe base64, padded or not."""
    return DecodeBase64(input, name=name)
