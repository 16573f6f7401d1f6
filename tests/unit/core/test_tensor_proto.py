"""TensorProto: written byte for byte as TensorFlow 2.21 wrote it, read in every encoding."""

import numpy as np
import pytest

from millrace.core import dtypes
from millrace.core.config import TensorProto
from millrace.core.tensor_proto import make_ndarray, make_tensor_proto

# (values, dtype, tf.make_tensor_proto(values, dtype) serialized)
TENSORFLOW = [
    (1, None, "080312003a0101"),
    (1.5, None, "080112002a040000c03f"),
    (True, None, "080a12005a0101"),
    ("é", None, "080712004202c3a9"),
    (b"a\0b", None, "080712004203610062"),
    (2**31, None, "0809120052058080808008"),
    (2**63, None, "081712008a010a80808080808080808001"),
    (1j, None, "0812120062100000000000000000000000000000f03f"),
    ([1, 2.5], None, "080112041202080222080000803f00002040"),
    ([1, True], None, "080312041202080222080100000001000000"),
    ([True, False], None, "080a1204120208025a020100"),
    ([1, 2**40], None, "0809120412020802221001000000000000000000000000010000"),
    ([["a", b"b"], ["c", "d\0"]], None, "08071208120208021202080242016142016242016342026400"),
    ([], None, "080112021200"),
    ([[], []], None, "08011206120208021200"),
    (1.5, "half", "081312006a02807c"),
    ([1.5, 2], "half", "08131204120208022204003e0040"),
    (1.5, "bfloat16", "080e12006a02c07f"),
    ([1.5, 2], "bfloat16", "080e1204120208022204c03f0040"),
    (1.5, "float8_e5m2", "081812009201013e"),
    ([1.5, 2.0], "float8_e4m3fn", "081912041202080222023c40"),
    (1, "float64", "080212003208000000000000f03f"),
    ([1, 2], "float64", "08021204120208022210000000000000f03f0000000000000040"),
    (-1, "int8", "080612003a0affffffffffffffffff01"),
    ([1, -2], "int8", "0806120412020802220201fe"),
    (-1, "int16", "080512003a0affffffffffffffffff01"),
    (300, "uint8", "080412003a012c"),
    (2**40, "int32", "080312003a0100"),
    ([1, 2], "uint16", "08111204120208023a020102"),
    (1, "uint32", "0816120082010101"),
    ([1, 2], "uint32", "081612041202080222080100000002000000"),
    (1, "uint64", "081712008a010101"),
    ([1, 2], "uint64", "0817120412020802221001000000000000000200000000000000"),
    (-1, "int64", "08091200520affffffffffffffffff01"),
    ([1, 2], "int64", "0809120412020802221001000000000000000200000000000000"),
    (1, "int4", "081d12003a0101"),
    ([1, -2], "int4", "081d1204120208023a0b01feffffffffffffffff01"),
    ([1, 2], "uint2", "08201204120208023a020102"),
    ([1j, 2], "complex64", "08081204120208024a10000000000000803f0000004000000000"),
    (
        [1j, 2],
        "complex128",
        "081212041202080262200000000000000000000000000000f03f00000000000000400000000000000000",
    ),
    ((1,), "qint8", "080b12003a0101"),
    ([(1,), (-2,)], "qint8", "080b120412020802220201fe"),
    ([(1,), (-2,)], "qint32", "080d120412020802220801000000feffffff"),
    ([], "string", "080712021200"),
    (1, "float32_ref", "080112002a040000803f"),
    (np.float64(1.5), None, "080212003208000000000000f83f"),
    (np.array([1, 2]), None, "0809120412020802221001000000000000000200000000000000"),
    (
        np.array([[1.0, 2], [3, 4]], np.float32).T,
        None,
        "08011208120208021202080222100000803f000040400000004000008040",
    ),
    (np.array(["a", "é"]), None, "08071204120208024201614202c3a9"),
    (np.array([b"a\0", b"b"], object), None, "080712041202080242026100420162"),
    (np.array([1.7, 2]), "int32", "080312041202080222080100000002000000"),
    (np.array([1, 0]), "bool", "080a1204120208025a020100"),
    (np.array([1, -2], np.int8), "qint8", "080b120412020802220201fe"),
    (np.zeros([0, 2]), None, "08021206120012020802"),
]

# (values, shape, tf.make_tensor_proto(values, shape=shape) serialized)
TENSORFLOW_SHAPES = [
    (1, [2, 3], "0803120812020802120208033a0101"),
    ([1, 2], [2, 3], "0803120812020802120208033a020102"),
    ([1, 2, 3, 4], [2, 2], "080312081202080212020802221001000000020000000300000004000000"),
    ([1], [0], "080112021200"),
    ([1], [], "080312003a0101"),
    ("a", [2], "0807120412020802420161"),
    (["a", "b"], [2, 1], "080712081202080212020801420161420162"),
    ([1.5, 2.5], [3], "08011204120208032a080000c03f00002040"),
]


@pytest.mark.parametrize(("values", "dtype", "encoded"), TENSORFLOW)
def test_a_value_is_encoded_as_tensorflow_encodes_it(values, dtype, encoded):
    proto = make_tensor_proto(values, dtype)
    assert proto.SerializeToString(deterministic=True).hex() == encoded


@pytest.mark.parametrize(("values", "shape", "encoded"), TENSORFLOW_SHAPES)
def test_a_value_with_a_shape_is_encoded_as_tensorflow_encodes_it(values, shape, encoded):
    proto = make_tensor_proto(values, shape=shape)
    assert proto.SerializeToString(deterministic=True).hex() == encoded


@pytest.mark.parametrize(("values", "dtype", "encoded"), TENSORFLOW)
def test_what_was_encoded_comes_back(values, dtype, encoded):
    proto = TensorProto.FromString(bytes.fromhex(encoded))
    array = make_ndarray(proto)
    kind = dtypes.as_dtype(proto.dtype)
    assert array.dtype == kind.as_numpy_dtype
    assert array.shape == tuple(d.size for d in proto.tensor_shape.dim)
    again = make_tensor_proto(array)
    assert again.SerializeToString(deterministic=True).hex() == encoded


def test_the_decoded_values_are_right():
    def decoded(values, dtype=None):
        return make_ndarray(make_tensor_proto(values, dtype)).tolist()

    assert decoded([1.5, 2], "half") == [1.5, 2]
    assert decoded(1.5, "bfloat16") == 1.5
    assert decoded(1.5, "float8_e4m3fnuz") == 1.5
    assert decoded([1.5, -2], "float8_e5m2fnuz") == [1.5, -2]
    assert decoded(3, "float4_e2m1fn") == 3
    assert decoded([1, -2], "int4") == [1, -2]
    assert decoded([1j, 2], "complex64") == [1j, 2]
    assert decoded([(1,), (-2,)], "qint16") == [(1,), (-2,)]
    assert decoded((200,), "quint8") == (200,)
    assert decoded([255, 0], "uint8") == [255, 0]
    assert decoded(["a", "é\0"]) == [b"a", b"\xc3\xa9\0"]
    assert decoded("text") == b"text"


@pytest.mark.parametrize(
    ("name", "field", "values", "expected"),
    [
        ("float32", "float_val", [1.5, 2.5], [1.5, 2.5, 2.5, 2.5]),
        ("float64", "double_val", [1.5], [1.5] * 4),
        ("int32", "int_val", [-7], [-7] * 4),
        ("uint8", "int_val", [200, 1], [200, 1, 1, 1]),
        ("int8", "int_val", [-1], [-1] * 4),
        ("uint16", "int_val", [65535], [65535] * 4),
        ("qint32", "int_val", [5, 6], [(5,), (6,), (6,), (6,)]),
        ("int64", "int64_val", [2**40], [2**40] * 4),
        ("uint32", "uint32_val", [2**32 - 1], [2**32 - 1] * 4),
        ("uint64", "uint64_val", [2**64 - 1], [2**64 - 1] * 4),
        ("bool", "bool_val", [False, True], [False, True, True, True]),
        ("half", "half_val", [15872], [1.5] * 4),
        ("bfloat16", "half_val", [0xC0C0], [-6.0] * 4),
        ("complex64", "scomplex_val", [1, 2, 3, 4], [1 + 2j, 3 + 4j, 3 + 4j, 3 + 4j]),
        ("complex128", "dcomplex_val", [1, 2], [1 + 2j] * 4),
        ("string", "string_val", [b"a", b"b"], [b"a", b"b", b"b", b"b"]),
    ],
)
def test_the_last_of_too_few_values_stands_for_the_rest(name, field, values, expected):
    proto = TensorProto(dtype=dtypes.as_dtype(name).as_datatype_enum)
    proto.tensor_shape.dim.add(size=2)
    proto.tensor_shape.dim.add(size=2)
    getattr(proto, field).extend(values)
    array = make_ndarray(proto)
    assert array.shape == (2, 2)
    assert array.reshape(-1).tolist() == expected


def test_no_values_at_all_mean_zeros_or_empty_strings():
    for name, zero in [("float32", 0.0), ("bool", False), ("string", b""), ("complex64", 0j)]:
        proto = TensorProto(dtype=dtypes.as_dtype(name).as_datatype_enum)
        proto.tensor_shape.dim.add(size=3)
        assert make_ndarray(proto).tolist() == [zero] * 3


@pytest.mark.parametrize("name", ["bool", "complex64", "uint16", "int4", "float8_e5m2fnuz"])
def test_types_written_as_lists_are_also_read_from_content(name):
    array = np.array([1, 0, 1]).astype(dtypes.as_dtype(name).as_numpy_dtype)
    proto = TensorProto(dtype=dtypes.as_dtype(name).as_datatype_enum)
    proto.tensor_shape.dim.add(size=3)
    proto.tensor_content = array.tobytes()
    np.testing.assert_array_equal(make_ndarray(proto), array)


def test_strings_are_read_from_content_with_lengths_in_front():
    # How TensorFlow's C++ writes strings when it is asked for content: varints, then the bytes.
    proto = TensorProto(dtype=7, tensor_content=b"\x01\x00\xc8\x01" + b"a" + b"b" * 200)
    proto.tensor_shape.dim.add(size=3)
    assert make_ndarray(proto).tolist() == [b"a", b"", b"b" * 200]
    proto.tensor_content = b"\x01\x00\x05abc"
    with pytest.raises(ValueError, match="lengths say"):
        make_ndarray(proto)
    proto.tensor_content = b"\x01\x80"
    with pytest.raises(ValueError, match="ends early"):
        make_ndarray(proto)


def test_a_reference_type_is_read_as_its_base():
    proto = make_tensor_proto([1.0, 2.0])
    proto.dtype = 101
    assert make_ndarray(proto).dtype == np.float32


def test_a_decoded_array_is_writable_and_its_own():
    proto = make_tensor_proto([1, 2, 3])
    array = make_ndarray(proto)
    array[0] = 9
    assert make_ndarray(proto).tolist() == [1, 2, 3]


def test_a_tensor_proto_is_handed_back():
    proto = make_tensor_proto(1)
    assert make_tensor_proto(proto, dtypes.float32, [3]) is proto


def malformed(**fields):
    proto = TensorProto(**{"dtype": 1, **fields})
    proto.tensor_shape.dim.add(size=2)
    return proto


def test_malformed_protos_are_refused():
    with pytest.raises(ValueError, match="needs 8 bytes of content, got 7"):
        make_ndarray(malformed(tensor_content=b"1234567"))
    with pytest.raises(ValueError, match=r"shape \[2\] is malformed: Too many elements"):
        make_ndarray(malformed(float_val=[1, 2, 3]))
    with pytest.raises(TypeError, match="Cannot convert value 0 to a TensorFlow DType"):
        make_ndarray(malformed(dtype=0))
    for handle in (20, 21):
        with pytest.raises(TypeError, match="Unsupported tensor type"):
            make_ndarray(malformed(dtype=handle))
    unknown = malformed()
    unknown.tensor_shape.dim[0].size = -1
    with pytest.raises(ValueError, match="needs a known shape"):
        make_ndarray(unknown)
    unknown = TensorProto(dtype=1)
    unknown.tensor_shape.unknown_rank = True
    with pytest.raises(ValueError, match="needs a known shape"):
        make_ndarray(unknown)


def test_shapes_are_checked_when_asked():
    for arguments, error, message in [
        ({"values": [1, 2, 3], "shape": [2]}, ValueError, "Takes at most 2, but got 3"),
        (
            {"values": [1, 2], "shape": [1, 2], "verify_shape": True},
            TypeError,
            r"Expected Tensor's shape: \(1, 2\), but got \(2,\)",
        ),
        (
            {"values": [1, 2], "shape": [3], "allow_broadcast": True},
            TypeError,
            r"Expected Tensor's shape: \(3,\), but got \(2,\)",
        ),
        (
            {"values": 1, "allow_broadcast": True, "verify_shape": True},
            ValueError,
            "not both allowed",
        ),
    ]:
        with pytest.raises(error, match=message):
            make_tensor_proto(**arguments)
    assert make_tensor_proto(1, shape=[3], allow_broadcast=True).int_val == [1]
    assert make_tensor_proto([1, 2], shape=[2], verify_shape=True).tensor_shape.dim[0].size == 2
