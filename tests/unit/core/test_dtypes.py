"""DType: numbers, names, flags and conversions are those that TensorFlow 2.21 reports."""

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

from millrace.core import dtypes
from millrace.core.dtypes import DType, as_dtype

# (enum, name, NumPy type, kind, size), printed by TensorFlow 2.21.
TENSORFLOW = [
    (1, "float32", np.float32, "floating", 4),
    (2, "float64", np.float64, "floating", 8),
    (3, "int32", np.int32, "integer", 4),
    (4, "uint8", np.uint8, "unsigned", 1),
    (5, "int16", np.int16, "integer", 2),
    (6, "int8", np.int8, "integer", 1),
    (7, "string", object, "string", 0),
    (8, "complex64", np.complex64, "complex", 8),
    (9, "int64", np.int64, "integer", 8),
    (10, "bool", np.bool_, "bool", 1),
    (11, "qint8", np.dtype([("qint8", "i1")]), "quantized", 1),
    (12, "quint8", np.dtype([("quint8", "u1")]), "quantized", 1),
    (13, "qint32", np.dtype([("qint32", "<i4")]), "quantized", 4),
    (14, "bfloat16", ml_dtypes.bfloat16, "floating", 2),
    (15, "qint16", np.dtype([("qint16", "<i2")]), "quantized", 2),
    (16, "quint16", np.dtype([("quint16", "<u2")]), "quantized", 2),
    (17, "uint16", np.uint16, "unsigned", 2),
    (18, "complex128", np.complex128, "complex", 16),
    (19, "float16", np.float16, "floating", 2),
    (20, "resource", None, "handle", 0),
    (21, "variant", None, "handle", 0),
    (22, "uint32", np.uint32, "unsigned", 4),
    (23, "uint64", np.uint64, "unsigned", 8),
    (24, "float8_e5m2", ml_dtypes.float8_e5m2, "floating", 1),
    (25, "float8_e4m3fn", ml_dtypes.float8_e4m3fn, "floating", 1),
    (26, "float8_e4m3fnuz", ml_dtypes.float8_e4m3fnuz, "floating", 1),
    (27, "float8_e4m3b11fnuz", ml_dtypes.float8_e4m3b11fnuz, "floating", 1),
    (28, "float8_e5m2fnuz", ml_dtypes.float8_e5m2fnuz, "floating", 1),
    (29, "int4", ml_dtypes.int4, "integer", 1),
    (30, "uint4", ml_dtypes.uint4, "unsigned", 1),
    (31, "int2", ml_dtypes.int2, "integer", 1),
    (32, "uint2", ml_dtypes.uint2, "unsigned", 1),
    (33, "float4_e2m1fn", ml_dtypes.float4_e2m1fn, "floating", 1),
]


@pytest.mark.parametrize(("enum", "name", "numpy_type", "kind", "size"), TENSORFLOW)
@pytest.mark.parametrize("is_ref", [False, True])
def test_a_type_has_tensorflows_number_name_and_flags(enum, name, numpy_type, kind, size, is_ref):
    dtype = DType(enum + 100) if is_ref else DType(enum)
    full_name = name + "_ref" if is_ref else name
    assert getattr(dtypes, full_name) is dtype
    assert (dtype.name, dtype.as_datatype_enum) == (full_name, enum + 100 * is_ref)
    assert repr(dtype) == f"tf.{full_name}"
    assert str(dtype) == f"<dtype: '{full_name}'>"
    assert dtype.size == size
    assert dtype.base_dtype is DType(enum)
    assert dtype._as_ref is DType(enum + 100)
    assert dtype._is_ref_dtype is is_ref
    assert dtype.is_floating == (kind == "floating")
    assert dtype.is_integer == (kind in ("integer", "unsigned"))
    assert dtype.is_unsigned == (kind == "unsigned")
    assert dtype.is_bool == (kind == "bool")
    assert dtype.is_complex == (kind == "complex")
    assert dtype.is_quantized == (kind == "quantized")
    assert dtype.is_numpy_compatible == (kind != "handle")
    if kind == "handle":
        with pytest.raises(KeyError, match="no NumPy type"):
            _ = dtype.as_numpy_dtype
    else:
        assert dtype.as_numpy_dtype == numpy_type
    assert as_dtype(full_name) is dtype
    assert as_dtype(dtype.as_datatype_enum) is dtype
    if numpy_type is not None:
        assert as_dtype(np.dtype(numpy_type)) is dtype.base_dtype


def test_a_type_is_one_object_also_after_copying_and_pickling():
    for enum, *_ in TENSORFLOW:
        for dtype in (DType(enum), DType(enum + 100)):
            assert DType(dtype.as_datatype_enum) is dtype
            assert pickle.loads(pickle.dumps(dtype)) is dtype
            assert copy.deepcopy(dtype) is dtype
            assert copy.copy(dtype) is dtype


@pytest.mark.parametrize("number", [0, 34, 100, 134, 500, -1])
def test_a_number_that_tensorflow_does_not_have_is_refused(number):
    with pytest.raises(TypeError, match=f"{number} does not correspond to a valid"):
        DType(number)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (dtypes.int32, "int32"),
        ("float", "float32"),
        ("double", "float64"),
        ("half", "float16"),
        ("float_ref", "float32_ref"),
        ("half_ref", "float16_ref"),
        ("double_ref", "float64_ref"),
        (float, "float32"),
        (bool, "bool"),
        (object, "string"),
        (np.float64, "float64"),
        (np.longlong, "int64"),
        (np.uint, "uint64"),
        (np.intc, "int32"),
        (np.dtype(">f4"), "float32"),
        (np.dtype("S3"), "string"),
        (np.dtype("<U3"), "string"),
        (np.dtype(object), "string"),
        (np.bytes_, "string"),
        (np.dtypes.StringDType(), "string"),
        (np.float32(1), "float32"),
        (np.zeros(3), "float64"),
        (np.array(["a"]), "string"),
        (np.dtype([("qint8", "i1")]), "qint8"),
        (ml_dtypes.bfloat16, "bfloat16"),
        (2, "float64"),
        (101, "float32_ref"),
    ],
)
def test_as_dtype_takes_what_tensorflow_takes(value, expected):
    assert as_dtype(value).name == expected


@pytest.mark.parametrize(
    "value",
    [int, str, bytes, complex, "int", "foo", "", None, 3.5, 0, 999, [1], np.void, np.dtype("V1")]
    + [np.datetime64, np.dtype("<M8[D]")],
)
def test_as_dtype_refuses_what_tensorflow_refuses(value):
    with pytest.raises(TypeError, match=r"Cannot convert value .* to a TensorFlow DType"):
        as_dtype(value)


def test_equality_converts_the_other_side_and_never_raises():
    assert dtypes.float32 == dtypes.float32
    assert dtypes.float32 == np.float32
    assert dtypes.float32 == np.dtype("f4")
    assert dtypes.float32 == "float"
    assert dtypes.float32 == 1
    assert dtypes.float32 != dtypes.float32_ref
    assert dtypes.float32 != None  # noqa: E711
    assert dtypes.float32 != "bogus"
    assert dtypes.float32 != [1]
    assert np.float32 == dtypes.float32
    assert {dtypes.float32: "x"}[dtypes.as_dtype("float")] == "x"
    assert hash(dtypes.float32_ref) == 101


def test_a_reference_can_be_read_as_its_base_but_not_the_other_way_round():
    assert dtypes.float32.is_compatible_with(dtypes.float32_ref)
    assert dtypes.float32.is_compatible_with(np.float32)
    assert not dtypes.float32_ref.is_compatible_with(dtypes.float32)
    assert not dtypes.float32.is_compatible_with(dtypes.float64)
    with pytest.raises(TypeError):
        dtypes.float32.is_compatible_with("bogus")


def test_the_real_type_of_a_complex_type_is_its_part():
    assert dtypes.complex64.real_dtype is dtypes.float32
    assert dtypes.complex128_ref.real_dtype is dtypes.float64
    assert dtypes.float32_ref.real_dtype is dtypes.float32_ref
    assert dtypes.string.real_dtype is dtypes.string


def test_extremes_are_those_of_the_numpy_type():
    assert (dtypes.int32.min, dtypes.int32.max) == (-(2**31), 2**31 - 1)
    assert dtypes.float32.max == np.finfo(np.float32).max
    assert float(dtypes.bfloat16.max) == 3.3895313892515355e38
    assert (dtypes.int4.min, dtypes.uint2.max) == (-8, 3)
    assert float(dtypes.float8_e4m3fn.max) == 448.0
    for dtype, message in [
        (dtypes.string, "with type <dtype: 'string'>"),
        (dtypes.bool_ref, "of <dtype: 'bool_ref'> with type <dtype: 'bool'>"),
        (dtypes.qint8, "with quantized type <dtype: 'qint8'>"),
        (dtypes.complex64, "with type"),
        (dtypes.resource, "of <dtype: 'resource'>"),
    ]:
        with pytest.raises(TypeError, match=f"Cannot find minimum value .*{message}"):
            _ = dtype.min
        with pytest.raises(TypeError, match="Cannot find maximum value"):
            _ = dtype.max


def test_limits_start_at_zero_and_exist_for_image_types_only():
    assert dtypes.uint8.limits == (0, 255)
    assert dtypes.int16.limits == (0, 32767)
    assert dtypes.float32_ref.limits == (0, 1)
    assert dtypes.bool.limits == (0, True)
    for dtype in (dtypes.float16, dtypes.string, dtypes.qint8, dtypes.int4, dtypes.resource):
        with pytest.raises(ValueError, match="does not have defined limits"):
            _ = dtype.limits


def test_groups_are_tensorflows_lists():
    # AddN's and Relu's lists of allowed types in TensorFlow 2.21.
    number = (
        "float32 float64 int32 uint8 int16 int8 complex64 int64 qint8 quint8 qint32 bfloat16 "
        "qint16 quint16 uint16 complex128 float16 uint32 uint64"
    )
    real = "float32 float64 int32 uint8 int16 int8 int64 bfloat16 uint16 float16 uint32 uint64"
    groups = {key: {t.name for t in group} for key, group in dtypes.TYPE_GROUPS.items()}
    assert groups["number"] == set(number.split())
    assert groups["real"] == set(real.split())
    assert groups["floating"] == {"float16", "bfloat16", "float32", "float64"}
    assert groups["complex"] == {"complex64", "complex128"}
    assert groups["index"] == {"int32", "int64"}
    assert groups["quantized"] == {"qint8", "quint8", "qint16", "quint16", "qint32"}
    assert groups["integer"] == {f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)}
    assert {t.name for t in dtypes._BY_ENUM.values() if t.is_numeric and not t._is_ref_dtype} == (
        groups["number"]
    )


def test_an_attribute_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nonsense"):
        _ = dtypes.float32.nonsense
    assert not hasattr(dtypes.float32, "nonsense")
