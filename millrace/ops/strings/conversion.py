"""Numbers from strings and strings from numbers: text, CSV, raw bytes, messages. Host kernels."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from millrace.core import dtypes, value_text
from millrace.core.tensor_proto import make_ndarray, make_tensor_proto
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph.define import op
from millrace.graph.dispatch import dispatched
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, scalars, unchanged
from millrace.graph.shape_inference import unknown as no_shape
from millrace.graph.tensor import Tensor
from millrace.ops.strings.string_arrays import each, strings, text
from millrace.platform import inflate, limits

__all__ = [
    "as_string",
    "decode_compressed",
    "decode_csv",
    "decode_raw",
    "parse_tensor",
    "serialize_tensor",
    "string_to_number",
]

_HEX = re.compile(rb"\s*[+-]?0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]*(?:[pP][+-]?\d+)?\s*")


# -- Numbers in strings ----------------------------------------------------------------------


def parse_number(string: bytes, kind: dtypes.DType) -> Any:
    """The number that a whole string denotes, by C's rules.

    Raises:
      ValueError: It does not denote one, or none that the type can hold.
    """
    if b"_" in string:  # Python's spelling, not C's
        raise ValueError
    if kind.is_floating:
        try:
            return float(string)
        except ValueError:
            if _HEX.fullmatch(string):
                return float.fromhex(string.decode())
            raise
    number = int(string)
    if not kind.min <= number <= kind.max:
        raise ValueError
    return number


@op(
    "StringToNumber(string_tensor: string) -> output: out_type where "
    "out_type: {float32, float64, int32, int64, uint32, uint64} = float32",
    shape=unchanged,
    gradient=NO_GRADIENT,
    host=True,
)
def StringToNumber(string_tensor: Any, *, out_type: Any) -> Any:
    """The number in each string."""
    numbers = []
    for string in string_tensor.ravel().tolist():
        try:
            numbers.append(parse_number(string, out_type))
        except ValueError:
            raise ValueError(
                f"StringToNumberOp could not correctly convert string: {text(string)}"
            ) from None
    with np.errstate(over="ignore"):
        return np.array(numbers, out_type.as_numpy_dtype).reshape(string_tensor.shape)


@dispatched
def string_to_number(
    string_tensor: Any = None,
    out_type: Any = dtypes.float32,
    name: str | None = None,
    input: Any = None,
) -> Tensor:
    """The number in each string.

    Raises:
      InvalidArgumentError: When run: a string is not a number.
    """
    given = input if string_tensor is None else string_tensor
    return StringToNumber(given, out_type=out_type, name=name)


# -- Strings of numbers ----------------------------------------------------------------------


@op(
    "AsString(input: T) -> output: string where T: {float32, float64, int32, uint8, int16, int8, "
    "int64, bfloat16, uint16, float16, uint32, uint64, complex64, complex128, bool, variant, "
    "string}; precision: int = -1; scientific: bool = false; shortest: bool = false; "
    'width: int = -1; fill: string = ""',
    shape=unchanged,
    gradient=NO_GRADIENT,
    host=True,
)
def AsString(
    input: Any,
    *,
    T: Any,
    precision: int,
    scientific: bool,
    shortest: bool,
    width: int,
    fill: bytes,
) -> Any:
    """Each number as C's printf writes it."""
    is_fraction = T.is_floating or T.is_complex
    if not is_fraction and dtypes.string != T:
        if scientific or shortest:
            raise ValueError(f"scientific and shortest format not supported for datatype {T.name}")
        if precision >= 0:
            raise ValueError(f"precision not supported for datatype {T.name}")
    if scientific and shortest:
        raise ValueError("Cannot select both scientific and shortest notation")
    if len(fill) > 1:
        raise ValueError("Fill string must be one or fewer characters")
    if fill and fill not in b" +-0#":
        raise ValueError(f'Fill argument not supported: "{text(fill)}"')
    longest = max(width, precision, 1)
    what = "Bytes of numbers of such a width and precision"
    limits.STRING_LENGTH.check(longest, what)
    limits.STRING_BYTES.check(longest * input.size, what)
    flags = fill.decode() + (str(width) if width >= 0 else "")
    if dtypes.string == T:
        pattern = f"%{flags}s".encode()
        return each(input, lambda s: pattern % s)
    if dtypes.bool == T:
        return strings([b"true" if v else b"false" for v in input.ravel()], input.shape)
    if is_fraction:
        flags += f".{precision}" if precision >= 0 else ""
        letter = "e" if scientific else "g" if shortest else "f"
    else:
        letter = "d"
    single = f"%{flags}{letter}"
    if T.is_complex:
        pair = f"({single},{single})"
        texts = [pair % (v.real, v.imag) for v in input.ravel().tolist()]
    else:
        if T.is_floating:
            input = input.astype(np.float64)
        texts = [single % v for v in input.ravel().tolist()]
    return strings([t.encode() for t in texts], input.shape)


@dispatched
def as_string(
    input: Any,
    precision: int = -1,
    scientific: bool = False,
    shortest: bool = False,
    width: int = -1,
    fill: str = "",
    name: str | None = None,
) -> Tensor:
    """Each number as a string.

    Args:
      input: Numbers or truth values.
      precision: Digits after the point, for fractions.
      scientific: Whether to write exponents.
      shortest: Whether to write exponents or not, whichever is shorter.
      width: Least number of characters.
      fill: What to pad with: "0", " ", "+" or "-".
      name: The operation's name.
    """
    return AsString(
        input,
        precision=precision,
        scientific=scientific,
        shortest=shortest,
        width=width,
        fill=fill,
        name=name,
    )


@op(
    "StringFormat(inputs: [T]) -> output: string where T: list(type) >= 0; "
    'template: string = "%s"; placeholder: string = "%s"; summarize: int = 3',
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
)
def StringFormat(inputs: list[Any], *, template: bytes, placeholder: bytes, summarize: int) -> Any:
    """A template whose placeholders are replaced by the values of tensors."""
    pieces = template.split(placeholder)
    if len(pieces) != len(inputs) + 1:
        raise ValueError(
            f"num placeholders in template and num inputs must match: {len(pieces) - 1} vs. "
            f"{len(inputs)}"
        )
    result = pieces[0]
    for value, piece in zip(inputs, pieces[1:], strict=True):
        result += value_text.pretty(value, summarize).encode() + piece
    return strings([result], ())


def string_format(
    template: str,
    inputs: Any,
    placeholder: str = "{}",
    summarize: int = 3,
    name: str | None = None,
) -> Tensor:
    """`tf.strings.format`: a template with the values of tensors.

    Raises:
      ValueError: The template does not have as many placeholders as there are inputs.
    """
    values = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
    if template.count(placeholder) != len(values):
        raise ValueError(
            f"The template expects {template.count(placeholder)} tensors, but the inputs only has "
            f"{len(values)}. Please ensure the number of placeholders in template matches inputs "
            "length."
        )
    return StringFormat(
        values, template=template, placeholder=placeholder, summarize=summarize, name=name
    )


# -- Raw bytes and messages --------------------------------------------------------------------


def _raw_shape(c: ShapeContext) -> TensorShape:
    return (
        c.shape(0).concatenate(TensorShape([None]))
        if c.shape(0).ndims is not None
        else (unknown_shape())
    )


_TYPE_NAMES = {"float32": "float", "float64": "double", "float16": "half"}


def type_name(kind: dtypes.DType) -> str:
    """A type's name in TensorFlow's messages."""
    return _TYPE_NAMES.get(kind.name, kind.name)


def _numbers(data: bytes, kind: Any, little_endian: bool) -> Any:
    dtype = np.dtype(kind.as_numpy_dtype)
    numbers = np.frombuffer(data, dtype)
    return numbers if little_endian else numbers.byteswap()


_RAW_TYPES = "{float16, float32, float64, int32, uint16, uint8, int16, int8, int64, "


@op(
    "DecodeRaw(bytes: string) -> output: out_type where "
    f"out_type: {_RAW_TYPES}complex64, complex128, bool, bfloat16}}; little_endian: bool = true",
    shape=_raw_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def DecodeRaw(bytes: Any, *, out_type: Any, little_endian: bool) -> Any:
    """The bytes of each string as numbers."""
    words = bytes.ravel().tolist()
    if not words:
        return np.empty((*bytes.shape, 0), out_type.as_numpy_dtype)
    size = len(words[0])
    for i, word in enumerate(words):
        if len(word) != size:
            raise ValueError(
                "DecodeRaw requires input strings to all be the same size, but element "
                f"{i} has size {size} != {len(word)}"
            )
    width = np.dtype(out_type.as_numpy_dtype).itemsize
    if size % width:
        raise ValueError(
            f"Input to DecodeRaw has length {size} that is not a multiple of {width}, the size of "
            f"{type_name(out_type)}"
        )
    return _numbers(b"".join(words), out_type, little_endian).reshape(*bytes.shape, -1)


def _padded_raw_shape(c: ShapeContext) -> TensorShape:
    length = c.value("fixed_length")
    if c.shape(0).ndims is None:
        return unknown_shape()
    width = np.dtype(c.attr("out_type").as_numpy_dtype).itemsize
    size = None if length is None else int(length) // width
    return c.shape(0).concatenate(TensorShape([size]))


@op(
    "DecodePaddedRaw(input_bytes: string, fixed_length: int32) -> output: out_type where "
    f"out_type: {_RAW_TYPES}bfloat16}}; little_endian: bool = true",
    shape=_padded_raw_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def DecodePaddedRaw(
    input_bytes: Any, fixed_length: Any, *, out_type: Any, little_endian: bool
) -> Any:
    """The bytes of each string, cut or filled up with zeros, as numbers."""
    length = int(fixed_length)
    width = np.dtype(out_type.as_numpy_dtype).itemsize
    if length <= 0:
        raise ValueError(f"`fixed_length` ({length}) must be greater than zero.")
    if length % width:
        raise ValueError(
            f"`fixed_length` ({length}) must be a multiple of the size of `out_type` ({width})"
        )
    words = [word[:length].ljust(length, b"\0") for word in input_bytes.ravel().tolist()]
    return _numbers(b"".join(words), out_type, little_endian).reshape(
        *input_bytes.shape, length // width
    )


def decode_raw(
    input_bytes: Any = None,
    out_type: Any = None,
    little_endian: bool = True,
    name: str | None = None,
    bytes: Any = None,
) -> Tensor:
    """The bytes of each string as a vector of numbers.

    Raises:
      ValueError: No type is given.
    """
    given = bytes if input_bytes is None else input_bytes
    if out_type is None:
        raise ValueError("decode_raw_v1() missing 1 positional argument: 'out_type'")
    return DecodeRaw(given, out_type=out_type, little_endian=little_endian, name=name)


@op(
    'DecodeCompressed(bytes: string) -> output: string where compression_type: string = ""',
    shape=unchanged,
    gradient=NO_GRADIENT,
    host=True,
)
def DecodeCompressed(bytes: Any, *, compression_type: bytes) -> Any:
    """Strings that were compressed with zlib or gzip, as they were."""
    kinds: dict[Any, Callable[[Any], Any]] = {
        b"": lambda s: s,
        b"ZLIB": lambda s: inflate.inflate(s, inflate.ZLIB),
        b"GZIP": lambda s: inflate.inflate(s, inflate.GZIP),
    }
    if compression_type not in kinds:
        raise ValueError(
            "Only ZLIB, GZIP or NONE are supported compressions, got " + text(compression_type)
        )
    return each(bytes, kinds[compression_type])


def decode_compressed(bytes: Any, compression_type: str = "", name: str | None = None) -> Tensor:
    """`tf.io.decode_compressed`: strings that were compressed with "ZLIB" or "GZIP"."""
    return DecodeCompressed(bytes, compression_type=compression_type, name=name)


@op(
    "SerializeTensor(tensor: T) -> serialized: string where T: type",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
)
def SerializeTensor(tensor: Any, *, T: Any) -> Any:
    """A tensor as a TensorProto message."""
    return strings([make_tensor_proto(tensor, dtype=T).SerializeToString()], ())


@op(
    "ParseTensor(serialized: string) -> output: out_type where out_type: type",
    shape=no_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def ParseTensor(serialized: Any, *, out_type: Any) -> Any:
    """The tensor of a TensorProto message."""
    message = type(make_tensor_proto(0))()
    try:
        message.ParseFromString(serialized.item())
        value = make_ndarray(message)
    except Exception as error:
        raise ValueError(f"Could not parse `serialized` as TensorProto: {error}") from None
    if message.dtype != out_type.as_datatype_enum:
        found = type_name(dtypes.as_dtype(message.dtype))
        raise ValueError(
            f"Type mismatch between parsed tensor ({found}) and dtype ({type_name(out_type)})"
        )
    return value


def serialize_tensor(tensor: Any, name: str | None = None) -> Tensor:
    """A tensor as a string: a TensorProto message."""
    return SerializeTensor(tensor, name=name)


def parse_tensor(serialized: Any, out_type: Any, name: str | None = None) -> Tensor:
    """The tensor that `serialize_tensor` made a string of."""
    return ParseTensor(serialized, out_type=out_type, name=name)


# -- CSV ---------------------------------------------------------------------------------------


def _csv_shape(c: ShapeContext) -> list[TensorShape]:
    for shape in c.shapes("record_defaults"):
        if shape.ndims is not None and (
            shape.ndims > 1 or (shape.ndims == 1 and (shape.sizes or (0,))[0] not in (None, 0, 1))
        ):
            raise ValueError(
                "Shape of a default must be a length-0 or length-1 vector, or a scalar"
            )
    return [c.shape("records")] * c.output_count


@op(
    "DecodeCSV(records: string, record_defaults: [OUT_TYPE]) -> output: [OUT_TYPE] where "
    "OUT_TYPE: list({float32, float64, int32, int64, string}) >= 1; "
    'field_delim: string = ","; use_quote_delim: bool = true; na_value: string = ""; '
    "select_cols: list(int) = []",
    shape=_csv_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def DecodeCSV(
    records: Any,
    record_defaults: list[Any],
    *,
    OUT_TYPE: Any,
    field_delim: bytes,
    use_quote_delim: bool,
    na_value: bytes,
    select_cols: list[int],
) -> Any:
    """Columns of comma-separated records."""
    if len(field_delim) != 1:
        raise ValueError("field_delim should be only 1 char")
    for i, default in enumerate(record_defaults):
        if default.size > 1:
            raise ValueError(
                f"There should only be 1 default per field but field {i} has {default.size}"
            )
    rows = []
    count = len(OUT_TYPE)
    for i, record in enumerate(records.ravel().tolist()):
        fields = csv_fields(record, field_delim, use_quote_delim)
        if select_cols:
            fields = [fields[c] for c in select_cols if c < len(fields)]
        if len(fields) != count:
            raise ValueError(f"Expect {count} fields but have {len(fields)} in record {i}")
        rows.append(fields)
    return [
        _csv_column([row[i] for row in rows], i, kind, default, na_value, records.shape)
        for i, (kind, default) in enumerate(zip(OUT_TYPE, record_defaults, strict=True))
    ]


def csv_fields(record: bytes, delimiter: bytes, quotes: bool) -> list[bytes]:
    """The fields of one record, by RFC 4180.

    Raises:
      ValueError: A quote or line end stands where none may.
    """
    if not record:
        return []
    if b"\n" not in record and b"\r" not in record and (not quotes or b'"' not in record):
        return record.split(delimiter)
    fields: list[bytes] = []
    position, size = 0, len(record)
    while position <= size:
        if not quotes or record[position : position + 1] != b'"':
            end = record.find(delimiter, position)
            end = size if end < 0 else end
            field = record[position:end]
            if b"\n" in field or b"\r" in field or (quotes and b'"' in field):
                raise ValueError("Unquoted fields cannot have quotes/CRLFs inside")
            fields.append(field)
            position = end + 1
            continue
        position += 1
        parts: list[bytes] = []
        while True:
            end = record.find(b'"', position)
            if end < 0:
                raise ValueError("Quoted field has to end with quote followed by delim or end")
            parts.append(record[position:end])
            following = record[end + 1 : end + 2]
            if following == b'"':
                parts.append(b'"')
                position = end + 2
            elif following in (b"", delimiter):
                position = end + 2
                break
            else:
                raise ValueError("Quote inside a string has to be escaped by another quote")
        fields.append(b"".join(parts))
    return fields


def _csv_column(
    fields: list[bytes],
    index: int,
    kind: dtypes.DType,
    default: Any,
    na_value: bytes,
    shape: tuple[int, ...],
) -> Any:
    values: list[Any] = []
    fallback = default.reshape(-1)[0] if default.size else None
    is_string = kind == dtypes.string
    for i, field in enumerate(fields):
        if not field or field == na_value:
            if fallback is None:
                raise ValueError(f"Field {index} is required but missing in record {i}!")
            values.append(fallback)
        elif is_string:
            values.append(field)
        else:
            try:
                values.append(parse_number(field, kind))
            except ValueError:
                raise ValueError(
                    f"Field {index} in record {i} is not a valid {type_name(kind)}: {text(field)}"
                ) from None
    if is_string:
        return strings(values, shape)
    with np.errstate(over="ignore"):
        return np.array(values, kind.as_numpy_dtype).reshape(shape)


def decode_csv(
    records: Any,
    record_defaults: Any,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    name: str | None = None,
    na_value: str = "",
    select_cols: Any = None,
) -> list[Tensor]:
    """Columns of comma-separated records.

    Args:
      records: Strings, one a record.
      record_defaults: For each column a value for fields that are empty; an empty tensor when a
        field must be there. Its type is the column's.
      field_delim: What separates fields.
      use_quote_delim: Whether fields may be in double quotes.
      name: The operation's name.
      na_value: Another string that means: not there.
      select_cols: The columns wanted, in ascending order; all when None.

    Raises:
      ValueError: `select_cols` is not ascending, or not as long as `record_defaults`.
    """
    columns = [] if select_cols is None else list(select_cols)
    if any(b <= a for a, b in itertools.pairwise(columns)):
        raise ValueError("select_cols is not strictly increasing.")
    if columns and columns[0] < 0:
        raise ValueError("select_cols contains negative values.")
    if columns and len(columns) != len(record_defaults):
        raise ValueError("Length of select_cols and record_defaults do not match.")
    return DecodeCSV(
        records,
        list(record_defaults),
        field_delim=field_delim,
        use_quote_delim=use_quote_delim,
        na_value=na_value,
        select_cols=columns,
        name=name,
    )
