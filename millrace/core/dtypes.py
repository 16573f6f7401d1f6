"""Element types of tensors, numbered and named as TensorFlow numbers and names them.

Invariants: there is one `DType` object per enum number, so `is` and `==` agree between DTypes;
the reference version of a type (what a TF1 variable op returns) has the number of its base + 100;
every attribute that the graph and the executor read is a plain slot, filled once at import.

Must not: know about tensors, protos other than the enum numbers, or devices.
"""

from __future__ import annotations

import builtins
from typing import Any

import ml_dtypes
import numpy as np

_REF_OFFSET = 100

# The interned instances by enum number. Filled by `DType.__new__`, complete when the import ends.
_BY_ENUM: dict[int, DType] = {}

# (enum, name, kind, NumPy type). Kinds: f floating, i signed, u unsigned, c complex, b bool,
# q quantized, s string, h opaque handle. The numbers are those of TF's types.proto.
_TABLE: tuple[tuple[int, str, str, Any], ...] = (
    (1, "float32", "f", np.float32),
    (2, "float64", "f", np.float64),
    (3, "int32", "i", np.int32),
    (4, "uint8", "u", np.uint8),
    (5, "int16", "i", np.int16),
    (6, "int8", "i", np.int8),
    (7, "string", "s", object),
    (8, "complex64", "c", np.complex64),
    (9, "int64", "i", np.int64),
    (10, "bool", "b", np.bool_),
    (11, "qint8", "q", np.dtype([("qint8", np.int8)])),
    (12, "quint8", "q", np.dtype([("quint8", np.uint8)])),
    (13, "qint32", "q", np.dtype([("qint32", np.int32)])),
    (14, "bfloat16", "f", ml_dtypes.bfloat16),
    (15, "qint16", "q", np.dtype([("qint16", np.int16)])),
    (16, "quint16", "q", np.dtype([("quint16", np.uint16)])),
    (17, "uint16", "u", np.uint16),
    (18, "complex128", "c", np.complex128),
    (19, "float16", "f", np.float16),
    (20, "resource", "h", None),
    (21, "variant", "h", None),
    (22, "uint32", "u", np.uint32),
    (23, "uint64", "u", np.uint64),
    (24, "float8_e5m2", "f", ml_dtypes.float8_e5m2),
    (25, "float8_e4m3fn", "f", ml_dtypes.float8_e4m3fn),
    (26, "float8_e4m3fnuz", "f", ml_dtypes.float8_e4m3fnuz),
    (27, "float8_e4m3b11fnuz", "f", ml_dtypes.float8_e4m3b11fnuz),
    (28, "float8_e5m2fnuz", "f", ml_dtypes.float8_e5m2fnuz),
    (29, "int4", "i", ml_dtypes.int4),
    (30, "uint4", "u", ml_dtypes.uint4),
    (31, "int2", "i", ml_dtypes.int2),
    (32, "uint2", "u", ml_dtypes.uint2),
    (33, "float4_e2m1fn", "f", ml_dtypes.float4_e2m1fn),
)
_ROW_BY_ENUM = {row[0]: row for row in _TABLE}

# What `DType.limits` reports (image intensity ranges), by base enum. Types not listed have none.
_UPPER_LIMITS: dict[int, Any] = {
    1: 1,
    2: 1,
    3: 2**31 - 1,
    4: 2**8 - 1,
    5: 2**15 - 1,
    6: 2**7 - 1,
    9: 2**63 - 1,
    10: True,
    17: 2**16 - 1,
    22: 2**32 - 1,
    23: 2**64 - 1,
}


class DType:
    """The type of a tensor's elements.

    Instances are interned: `DType(1) is float32`. All attributes are read-only by convention.

    Attributes:
        name: TF's name, e.g. "float32" or "float32_ref".
        as_datatype_enum: The number in TF's DataType enum.
        as_numpy_dtype: The NumPy scalar type (`object` for strings). Handles (resource, variant)
            have none: reading it raises KeyError, as in TF.
        base_dtype: The same type without "_ref"; itself if it is not a reference.
        real_dtype: float32 for complex64, float64 for complex128, else the type itself.
        size: Bytes per element; 0 where an element has no fixed size.
    """

    __slots__ = (
        "_as_ref",
        "_hash",
        "_is_ref_dtype",
        "_repr",
        "_type_enum",
        "as_datatype_enum",
        "as_numpy_dtype",
        "base_dtype",
        "is_bool",
        "is_complex",
        "is_floating",
        "is_integer",
        "is_numeric",
        "is_numpy_compatible",
        "is_quantized",
        "is_unsigned",
        "name",
        "real_dtype",
        "size",
    )

    name: str
    as_datatype_enum: int
    _type_enum: int
    as_numpy_dtype: Any
    base_dtype: DType
    real_dtype: DType
    size: int
    is_floating: builtins.bool
    is_integer: builtins.bool
    is_bool: builtins.bool
    is_complex: builtins.bool
    is_unsigned: builtins.bool
    is_quantized: builtins.bool
    is_numeric: builtins.bool
    is_numpy_compatible: builtins.bool
    _is_ref_dtype: builtins.bool
    _as_ref: DType
    _hash: int
    _repr: str

    def __new__(cls, type_enum: int) -> DType:
        """Returns the interned DType of an enum number.

        Raises:
            TypeError: If the number is not one of TF's data types.
        """
        type_enum = int(type_enum)
        known = _BY_ENUM.get(type_enum)
        if known is not None:
            return known
        is_ref = type_enum > _REF_OFFSET
        row = _ROW_BY_ENUM.get(type_enum - _REF_OFFSET if is_ref else type_enum)
        if row is None:
            raise TypeError(f"{type_enum} does not correspond to a valid tensorflow::DataType")
        base_enum, base_name, kind, numpy_type = row

        self = object.__new__(cls)
        self.name = base_name + "_ref" if is_ref else base_name
        self.as_datatype_enum = self._type_enum = self._hash = type_enum
        self._repr = "tf." + self.name
        self.is_floating = kind == "f"
        self.is_integer = kind in "iu"
        self.is_unsigned = kind == "u"
        self.is_bool = kind == "b"
        self.is_complex = kind == "c"
        self.is_quantized = kind == "q"
        # TF's number types end at uint64: the 8-bit floats and smaller types are storage formats.
        self.is_numeric = kind in "fiucq" and base_enum < 24
        self.is_numpy_compatible = kind != "h"
        self._is_ref_dtype = is_ref
        if numpy_type is not None:
            self.as_numpy_dtype = numpy_type
        self.size = 0 if kind in "sh" else int(np.dtype(numpy_type).itemsize)
        _BY_ENUM[type_enum] = self

        # Interned before these: a type and its reference version point at each other.
        self.base_dtype = cls(base_enum) if is_ref else self
        self._as_ref = self if is_ref else cls(type_enum + _REF_OFFSET)
        self.real_dtype = cls({8: 1, 18: 2}.get(base_enum, type_enum))
        return self

    def __getattr__(self, attribute: str) -> Any:
        # Reached only when a slot is empty (a handle's as_numpy_dtype) or no such attribute exists.
        if attribute == "as_numpy_dtype":
            raise KeyError(f"{self._repr} has no NumPy type: its elements are opaque handles.")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {attribute!r}")

    @property
    def min(self) -> Any:
        """The smallest finite value of this type.

        Raises:
            TypeError: If the type has no order (bool, string, complex, quantized, handles).
        """
        return self._extreme("minimum", "min")

    @property
    def max(self) -> Any:
        """The largest finite value of this type.

        Raises:
            TypeError: If the type has no order (bool, string, complex, quantized, handles).
        """
        return self._extreme("maximum", "max")

    def _extreme(self, word: str, field: str) -> Any:
        if self.is_floating:
            return getattr(ml_dtypes.finfo(self.as_numpy_dtype), field)
        if self.is_integer:
            return getattr(ml_dtypes.iinfo(self.as_numpy_dtype), field)
        if not self.is_numpy_compatible:
            raise TypeError(f"Cannot find {word} value of {self}.")
        kind = "quantized type" if self.is_quantized else "type"
        raise TypeError(f"Cannot find {word} value of {self} with {kind} {self.base_dtype}.")

    @property
    def limits(self) -> tuple[Any, Any]:
        """The (min, max) intensities of an image of this type; min is always 0, as in TF.

        Raises:
            ValueError: If no intensity range is defined for the type.
        """
        upper = _UPPER_LIMITS.get(self.base_dtype._type_enum)
        if upper is None:
            raise ValueError(f"{self} does not have defined limits.")
        return 0, upper

    def is_compatible_with(self, other: Any) -> builtins.bool:
        """Whether a tensor of type `other` can be used where this type is wanted.

        A reference can be read as its base type; the reverse does not hold.

        Args:
            other: A DType, or anything that `as_dtype` takes.
        """
        other = as_dtype(other)
        return self is other or self is other.base_dtype

    def __eq__(self, other: object) -> builtins.bool:
        if self is other:
            return True
        if other is None or type(other) is DType:
            return False
        try:
            return self is as_dtype(other)
        except TypeError:
            return False

    def __ne__(self, other: object) -> builtins.bool:
        return not self.__eq__(other)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return self._repr

    def __str__(self) -> str:
        return f"<dtype: {self.name!r}>"

    def __int__(self) -> int:
        return self._type_enum

    def __reduce__(self) -> tuple[Any, ...]:
        return DType, (self._type_enum,)

    def __copy__(self) -> DType:
        return self

    def __deepcopy__(self, memo: Any) -> DType:
        return self


float32 = DType(1)
float64 = DType(2)
int32 = DType(3)
uint8 = DType(4)
int16 = DType(5)
int8 = DType(6)
string = DType(7)
complex64 = DType(8)
int64 = DType(9)
bool = DType(10)
qint8 = DType(11)
quint8 = DType(12)
qint32 = DType(13)
bfloat16 = DType(14)
qint16 = DType(15)
quint16 = DType(16)
uint16 = DType(17)
complex128 = DType(18)
float16 = DType(19)
resource = DType(20)
variant = DType(21)
uint32 = DType(22)
uint64 = DType(23)
float8_e5m2 = DType(24)
float8_e4m3fn = DType(25)
float8_e4m3fnuz = DType(26)
float8_e4m3b11fnuz = DType(27)
float8_e5m2fnuz = DType(28)
int4 = DType(29)
uint4 = DType(30)
int2 = DType(31)
uint2 = DType(32)
float4_e2m1fn = DType(33)

# Names that read well where the builtin of the same name is needed too.
bool_ = bool
float_ = float32
half = float16
double = float64

float32_ref = float32._as_ref
float64_ref = float64._as_ref
int32_ref = int32._as_ref
uint8_ref = uint8._as_ref
int16_ref = int16._as_ref
int8_ref = int8._as_ref
string_ref = string._as_ref
complex64_ref = complex64._as_ref
int64_ref = int64._as_ref
bool_ref = bool._as_ref
qint8_ref = qint8._as_ref
quint8_ref = quint8._as_ref
qint32_ref = qint32._as_ref
bfloat16_ref = bfloat16._as_ref
qint16_ref = qint16._as_ref
quint16_ref = quint16._as_ref
uint16_ref = uint16._as_ref
complex128_ref = complex128._as_ref
float16_ref = half_ref = float16._as_ref
double_ref = float64_ref
resource_ref = resource._as_ref
variant_ref = variant._as_ref
uint32_ref = uint32._as_ref
uint64_ref = uint64._as_ref
float8_e5m2_ref = float8_e5m2._as_ref
float8_e4m3fn_ref = float8_e4m3fn._as_ref
float8_e4m3fnuz_ref = float8_e4m3fnuz._as_ref
float8_e4m3b11fnuz_ref = float8_e4m3b11fnuz._as_ref
float8_e5m2fnuz_ref = float8_e5m2fnuz._as_ref
int4_ref = int4._as_ref
uint4_ref = uint4._as_ref
int2_ref = int2._as_ref
uint2_ref = uint2._as_ref
float4_e2m1fn_ref = float4_e2m1fn._as_ref

QUANTIZED_DTYPES = frozenset(t for t in _BY_ENUM.values() if t.is_quantized)

# The groups that op signatures name ("T: number"). They are TF's lists, not what the flags say:
# the 8-bit and smaller floats and the 2- and 4-bit integers belong to none of them.
_REAL = (
    float32, float64, int32, uint8, int16, int8, int64, bfloat16, uint16, float16, uint32, uint64,
)  # fmt: skip
_COMPLEX = (complex64, complex128)
_QUANTIZED = (qint8, quint8, qint32, qint16, quint16)
TYPE_GROUPS: dict[str, frozenset[DType]] = {
    "number": frozenset(_REAL + _COMPLEX + _QUANTIZED),
    "real": frozenset(_REAL),
    "floating": frozenset((float16, bfloat16, float32, float64)),
    "complex": frozenset(_COMPLEX),
    "index": frozenset((int32, int64)),
    "integer": frozenset((int8, int16, int32, int64, uint8, uint16, uint32, uint64)),
    "quantized": frozenset(_QUANTIZED),
}

# NumPy scalar types (and the structured dtypes of quantized values) to DTypes.
_BY_NUMPY: dict[Any, DType] = {
    row[3]: _BY_ENUM[row[0]] for row in _TABLE if row[3] not in (None, object)
}
_BY_NUMPY.update({np.object_: string, np.bytes_: string, np.str_: string})
# The platform's C integer types are distinct Python types with one of the widths above.
for _c_integer in (np.intc, np.uintc, np.int_, np.uint, np.longlong, np.ulonglong):
    _BY_NUMPY.setdefault(_c_integer, _BY_NUMPY[np.dtype(f"{np.dtype(_c_integer).str}").type])
_BY_NUMPY[np.dtypes.StringDType()] = string

_BY_NAME: dict[str, DType] = {t.name: t for t in _BY_ENUM.values()}
for _alias, _name in (("half", "float16"), ("float", "float32"), ("double", "float64")):
    _BY_NAME[_alias] = _BY_NAME[_name]
    _BY_NAME[_alias + "_ref"] = _BY_NAME[_name + "_ref"]

# TF takes these three Python types only: `int` is refused, since it could mean int32 or int64.
_BY_PYTHON: dict[Any, DType] = {builtins.float: float32, builtins.bool: bool, object: string}

_BY_ANYTHING: dict[Any, DType] = {**_BY_ENUM, **_BY_NAME, **_BY_PYTHON, **_BY_NUMPY}


def as_dtype(type_value: Any) -> DType:
    """Converts to a DType.

    Args:
        type_value: A DType, an enum number, a name ("float32", "float", "float32_ref"), a NumPy
            dtype or scalar type, a value with a NumPy `dtype`, or one of float, bool, object.

    Raises:
        TypeError: If there is no such type.
    """
    if type(type_value) is DType:
        return type_value
    if isinstance(type_value, np.dtype):
        found = _BY_NUMPY.get(type_value.type)
        if found is not None:
            return found
    try:
        return _BY_ANYTHING[type_value]
    except (KeyError, TypeError):
        pass
    if hasattr(type_value, "dtype"):
        try:
            return _BY_NUMPY[np.dtype(type_value.dtype).type]
        except (KeyError, TypeError):
            pass
    raise TypeError(f"Cannot convert value {type_value!r} to a TensorFlow DType.")
