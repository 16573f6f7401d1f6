"""Python values to arrays: expectations were printed by TensorFlow 2.21 in v1 mode."""

import ml_dtypes
import numpy as np
import pytest

from millrace.core import dtypes
from millrace.core.convert import feed_to_ndarray, to_ndarray
from millrace.core.tensor_shape import Dimension, TensorShape


@pytest.mark.parametrize(
    ("values", "dtype", "shape"),
    [
        (1, "int32", ()),
        (-(2**31), "int32", ()),
        (2**31, "int64", ()),
        (2**63, "uint64", ()),
        (1.5, "float32", ()),
        (True, "bool", ()),
        (1j, "complex128", ()),
        ("a", "string", ()),
        (b"a", "string", ()),
        ([1, 2**40], "int64", (2,)),
        ([1, 2.5], "float32", (2,)),
        ([1, True], "int32", (2,)),
        ([2**63, 1], "float32", (2,)),
        ([], "float32", (0,)),
        ([[], []], "float32", (2, 0)),
        (((1, 2), (3, 4)), "int32", (2, 2)),
        ([["a", b"b"]], "string", (1, 2)),
        ([np.float64(1.5)], "float32", (1,)),
        ([np.int64(1)], "int32", (1,)),
        ([np.int8(1)], "int8", (1,)),
        ([np.float32(1), np.float64(2)], "float32", (2,)),
        ([np.array(1.0), 2], "float32", (2,)),
        ([ml_dtypes.bfloat16(1)], "bfloat16", (1,)),
        (np.float64(1.5), "float64", ()),
        (np.int64(1), "int64", ()),
        (np.str_("abc"), "string", ()),
        (np.array([1.5]), "float64", (1,)),
        (np.array([1, 2]), "int64", (2,)),
        (np.array(["a", "b"]), "string", (2,)),
        (bytearray(b"ab"), "uint8", (2,)),
        (memoryview(b"ab"), "uint8", (2,)),
    ],
)
def test_the_type_is_inferred_as_tensorflow_infers_it(values, dtype, shape):
    array = to_ndarray(values)
    assert isinstance(array, np.ndarray)
    assert (dtypes.as_dtype(array.dtype).name, array.shape) == (dtype, shape)


# Two leniencies: TensorFlow refuses both, though it takes them elsewhere (feeds, eager tensors).
def test_ranges_and_lists_of_arrays_are_taken_too():
    assert to_ndarray(range(3)).tolist() == [0, 1, 2]
    assert to_ndarray(range(3), dtypes.float32).dtype == np.float32
    array = to_ndarray([np.array([1.0, 2]), [3, 4]])
    assert (array.dtype, array.tolist()) == (np.float32, [[1, 2], [3, 4]])


def test_strings_become_bytes_and_keep_zero_bytes():
    array = to_ndarray([["é", b"b\0"], ["", b"\xff"]])
    assert array.dtype == object
    assert array.tolist() == [["é".encode(), b"b\0"], [b"", b"\xff"]]
    assert all(type(item) is bytes for item in array.flat)
    assert to_ndarray(np.array(["é", "b"])).tolist() == ["é".encode(), b"b"]
    assert type(to_ndarray(np.array(["b"])).item()) is bytes
    assert to_ndarray(np.array(["a", b"b"], object)).tolist() == [b"a", b"b"]
    assert to_ndarray(["a"], dtypes.string).tolist() == [b"a"]
    assert to_ndarray([np.array(["a", "b"]), ["c", "d"]]).tolist() == [[b"a", b"b"], [b"c", b"d"]]


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        (1, "float32", 1.0),
        (True, "int32", 1),
        (True, "float32", 1.0),
        (1.5, "complex64", 1.5 + 0j),
        (300, "uint8", 44),
        (-1, "uint8", 255),
        (2**40, "int32", 0),
        ([300, 1], "uint8", [44, 1]),
        ([1, True], "int32", [1, 1]),
        ([Dimension(3), 2], "int32", [3, 2]),
        ([np.array(1.5), 2], "float32", [1.5, 2]),
        ([np.bool_(True)], "bool", [True]),
        ([ml_dtypes.bfloat16(1.5)], "float32", [1.5]),
        ([(1,), (2,)], "qint8", [(1,), (2,)]),
        (np.array([1.7, 2]), "int32", [1, 2]),
        (np.float64(1.7), "int32", 1),
        (np.array([1, 0]), "bool", [True, False]),
        (1, "float32_ref", 1.0),
    ],
)
def test_values_take_the_given_type(values, dtype, expected):
    array = to_ndarray(values, dtype)
    assert array.dtype == dtypes.as_dtype(dtype).as_numpy_dtype
    assert array.tolist() == expected


@pytest.mark.parametrize(
    ("values", "dtype", "message"),
    [
        (1.5, "int32", "Expected int32, got 1.5 of type 'float' instead."),
        ([1, 2.5], "int32", "Expected int32, got 2.5 of type 'float' instead."),
        ([[1.5, 2], [3, 4]], "int32", "Expected int32, got 1.5 of type 'float' instead."),
        (1, "bool", "Expected bool, got 1 of type 'int' instead."),
        ([True, 1], "bool", "Expected bool, got 1 of type 'int' instead."),
        ("a", "int32", "Expected int32, got 'a' of type 'str' instead."),
        (["a"], "float32", "Expected float32, got 'a' of type 'str' instead."),
        (1, "string", "Expected string, got 1 of type 'int' instead."),
        (["a", 1], "string", "Expected string, got 1 of type 'int' instead."),
        ([None], "int32", "Expected int32, got None of type 'NoneType' instead."),
        (1j, "float32", "Expected float32, got 1j of type 'complex' instead."),
        ([1], "qint8", "Expected qint8, got 1 of type 'int' instead."),
        ([np.float32(1.5)], "int32", "of type 'float32' instead."),
        ([np.array([1.5])], "int32", "of type 'ndarray' instead."),
        ([np.array([1.5])], "string", "of type 'ndarray' instead."),
        (TensorShape([2, 3]), "int32", "of type 'TensorShape' instead."),
        (1, "resource", "is not compatible with 1"),
        (np.array(1), "variant", "is not compatible with values of dtype int64"),
        (np.array([1.7]), "string", "Expected binary or unicode string, got 1.7"),
        (1, "foo", "Cannot convert value 'foo' to a TensorFlow DType."),
    ],
)
def test_values_that_do_not_fit_the_type_are_a_type_error(values, dtype, message):
    with pytest.raises(TypeError) as info:
        to_ndarray(values, dtype)
    assert message in str(info.value)


@pytest.mark.parametrize(
    "values",
    [2**64, -(2**63) - 1, [2**64, 1], [1, "a"], ["a", 1], [None], [1, None], Dimension(3)]
    + [{}, {1: 2}, {1, 2}, object(), [object()], TensorShape([2])],
)
def test_values_without_a_type_are_a_type_error(values):
    with pytest.raises(TypeError, match=r"Failed to convert elements of .* to Tensor"):
        to_ndarray(values)


def test_arrays_without_a_type_are_a_type_error():
    for values in (np.datetime64("2020-01-01"), np.array(["a", 1], object)):
        with pytest.raises(TypeError):
            to_ndarray(values)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([[1, 2], [3]], None),
        ([[1, 2], 3], None),
        ([[1, 2], [3]], "float32"),
        ([["a", "b"], ["c"]], None),
        ([["a"], "b"], None),
        (["a", ["b"]], None),
        (["a", ["b"]], "string"),
        ([np.array([1.0, 2]), [3]], None),
    ],
)
def test_ragged_lists_are_a_value_error(values, dtype):
    with pytest.raises(ValueError, match="Argument must be a dense tensor"):
        to_ndarray(values, dtype)


def test_none_is_a_value_error():
    for dtype in (None, dtypes.int32):
        with pytest.raises(ValueError, match="None values not supported"):
            to_ndarray(None, dtype)


def test_a_long_value_is_cut_in_the_message():
    with pytest.raises(TypeError) as info:
        to_ndarray([1, "a"] + [0] * 10000)
    assert len(str(info.value)) < 600


def test_a_shape_is_filled_with_the_last_value():
    assert to_ndarray(1, shape=[2, 2]).tolist() == [[1, 1], [1, 1]]
    assert to_ndarray([1, 2], shape=[2, 2]).tolist() == [[1, 2], [2, 2]]
    assert to_ndarray([1, 2, 3, 4], shape=(2, 2)).tolist() == [[1, 2], [3, 4]]
    assert to_ndarray("a", shape=[2]).tolist() == [b"a", b"a"]
    assert to_ndarray([1], shape=[]).tolist() == 1
    assert to_ndarray(np.array([1.5]), shape=[2]).tolist() == [1.5, 1.5]
    with pytest.raises(ValueError, match="Takes at most 2, but got 3"):
        to_ndarray([1, 2, 3], shape=[2])


def test_an_empty_shape_ignores_the_values():
    assert to_ndarray([1, 2], shape=[0]).dtype == np.float32
    assert to_ndarray([1], dtypes.int64, [2, 0]).shape == (2, 0)
    assert to_ndarray([], dtypes.string, [0]).dtype == object


def test_an_array_of_the_right_type_is_not_copied():
    array = np.zeros((2, 3), np.float32)
    assert to_ndarray(array) is array
    assert to_ndarray(array, dtypes.float32) is array
    assert feed_to_ndarray(array, dtypes.float32) is array
    strings = np.array([b"a", b"b"], object)
    assert to_ndarray(strings) is strings


def test_foreign_byte_orders_become_native():
    # TensorFlow 2.21 writes the foreign bytes into the graph, which changes the value.
    for convert in (lambda a: to_ndarray(a), lambda a: feed_to_ndarray(a, dtypes.int32)):
        array = convert(np.array([1, 2], ">i4"))
        assert array.dtype.isnative
        assert array.tolist() == [1, 2]


def test_an_array_like_is_taken_by_its_array():
    class Like:
        def __array__(self, dtype=None, copy=None):
            return np.array([1, 2], np.int16)

    assert to_ndarray(Like()).dtype == np.int16
    assert to_ndarray(Like(), dtypes.float32).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (1.5, "int32", 1),
        ([1.5], "int32", [1]),
        ([2**40], "int32", [0]),
        ([300], "uint8", [44]),
        (1, "bool", True),
        ([2], "bool", [True]),
        (True, "int32", 1),
        (1.5, "complex64", 1.5 + 0j),
        (range(3), "float32", [0.0, 1.0, 2.0]),
        ([np.array([1, 2]), [3, 4]], "float32", [[1, 2], [3, 4]]),
        (np.int64(2**40), "int32", 0),
        (2**24 + 1, "float32", 2.0**24),
        ("é", "string", "é".encode()),
        (["a", b"b\0"], "string", [b"a", b"b\0"]),
        (np.array(["a", "é"]), "string", [b"a", "é".encode()]),
        (np.array([1, 2], np.int8), "qint8", [(1,), (2,)]),
        ([(1,)], "qint8", [(1,)]),
    ],
)
def test_a_feed_is_cast_as_numpy_casts(value, dtype, expected):
    array = feed_to_ndarray(value, dtypes.as_dtype(dtype))
    assert isinstance(array, np.ndarray)
    assert array.dtype == dtypes.as_dtype(dtype).as_numpy_dtype
    assert array.tolist() == expected


@pytest.mark.parametrize(("value", "dtype"), [(2**40, "int32"), (300, "uint8"), (1, "string")])
def test_a_fed_int_that_does_not_survive_is_a_type_error(value, dtype):
    with pytest.raises(TypeError, match=f"Type of feed value {value} with type .*larger type"):
        feed_to_ndarray(value, dtypes.as_dtype(dtype))


@pytest.mark.parametrize(
    ("value", "dtype", "error"),
    [
        ("a", "float32", ValueError),
        ([[1, 2], [3]], "float32", ValueError),
        ({1: 2}, "float32", TypeError),
        ([1, "a"], "string", TypeError),
        (np.array([1, 2]), "string", TypeError),
        (None, "string", TypeError),
        (2.5, "string", TypeError),
        (1, "resource", TypeError),
    ],
)
def test_a_feed_of_another_kind_is_refused(value, dtype, error):
    with pytest.raises(error):
        feed_to_ndarray(value, dtypes.as_dtype(dtype))
