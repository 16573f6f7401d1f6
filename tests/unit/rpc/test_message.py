"""Messages between tasks: every value survives, and no bytes can do harm."""

import random
import struct
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from millrace.core import dtypes, errors
from millrace.core.dead import DEAD
from millrace.core.written import Written
from millrace.rpc.message import (
    ALIGNMENT,
    PREFIX_BYTES,
    Kind,
    Message,
    Prefix,
    aligned_buffer,
    decode,
    encode,
)

SENDABLE = [
    d
    for d in (dtypes.as_dtype(n) for n in range(1, 24))
    if d.name not in ("resource", "variant", "string")
]


def to_bytes(message: Message) -> bytes:
    return b"".join(bytes(part) for part in encode(message))


def from_bytes(data: bytes) -> Message:
    prefix = Prefix(data[:PREFIX_BYTES])
    end = PREFIX_BYTES + prefix.header_bytes
    block = aligned_buffer(prefix.block_bytes)
    block[:] = data[end : end + prefix.block_bytes]
    return decode(prefix, data[PREFIX_BYTES:end], block)


def through(*tensors: Any) -> list[Any]:
    return from_bytes(to_bytes(Message(Kind.TENSORS, 5, 7, b"text", list(tensors)))).tensors


def test_kind_step_key_and_text_survive():
    message = from_bytes(to_bytes(Message(Kind.DONE, 2**62, -3, "é\n".encode())))
    assert (message.kind, message.step, message.key) == (Kind.DONE, 2**62, -3)
    assert message.text.decode() == "é\n"
    assert message.tensors == []


@pytest.mark.parametrize("dtype", SENDABLE, ids=lambda d: d.name)
def test_every_dtype_survives(dtype):
    value = np.arange(6).reshape(2, 3).astype(dtype.as_numpy_dtype)
    (found,) = through(value)
    assert found.dtype == value.dtype and found.shape == (2, 3)
    assert found.tobytes() == value.tobytes()


def test_bfloat16_keeps_its_type():
    (found,) = through(np.array([1.5, -2.0], ml_dtypes.bfloat16))
    assert found.dtype == ml_dtypes.bfloat16 and found.tolist() == [1.5, -2.0]


def test_strings_with_zeros_and_empty_ones_survive():
    value = np.array([[b"", b"a\0b"], [b"\xff" * 1000, "é".encode()]], object)
    (found,) = through(value)
    assert found.dtype == object and found.tolist() == value.tolist()


def test_scalars_empty_and_dead_tensors_keep_their_places():
    found = through(
        np.float32(2.5),
        DEAD,
        np.zeros((0, 3), np.int64),
        np.array(b"x", object),
        np.zeros((2, 0), object),
        np.True_,
    )
    assert found[0].shape == () and found[0] == 2.5
    assert found[1] is DEAD
    assert found[2].shape == (0, 3) and found[2].dtype == np.int64
    assert found[3].shape == () and found[3][()] == b"x"
    assert found[4].shape == (2, 0) and found[4].dtype == object
    assert found[5].shape == () and found[5].dtype == bool


def test_an_array_that_is_not_contiguous_arrives_as_it_reads():
    value = np.arange(12).reshape(3, 4)[:, ::2]
    assert through(value)[0].tolist() == value.tolist()
    assert through(np.asfortranarray(np.arange(6).reshape(2, 3)))[0].tolist() == [
        [0, 1, 2],
        [3, 4, 5],
    ]


def test_every_tensor_begins_at_an_aligned_address():
    tensors = [np.ones(n, np.uint8) for n in (1, 63, 64, 65, 5)]
    for tensor in through(*tensors):
        assert tensor.ctypes.data % ALIGNMENT == 0


def test_a_large_array_is_not_copied_when_it_is_encoded():
    value = np.ones(1 << 16, np.float32)
    assert any(
        isinstance(part, memoryview) and part.obj is not None and len(part) == value.nbytes
        for part in encode(Message(Kind.TENSORS, tensors=[value]))
    )


def test_a_message_may_hold_more_tensors_than_fit_sixteen_bits():
    assert len(through(*[np.int32(1)] * 70_000)) == 70_000


def test_objects_that_are_not_strings_are_refused_when_they_are_sent():
    with pytest.raises(errors.InvalidArgumentError, match="cannot be sent"):
        encode(Message(Kind.TENSORS, tensors=[np.array([object()], object)]))


def raw(count: int, header: bytes, block: bytes = b"", kind: int = Kind.TENSORS) -> bytes:
    """A message whose parts are as given."""
    good = bytearray(encode(Message(Kind(kind), 1))[0][:PREFIX_BYTES])
    fields = struct.Struct("<4sB3xIIQQ")
    magic, number, _, _, _, step = fields.unpack(good)
    return (
        fields.pack(magic, number, count, 12 + len(header), len(block), step)
        + struct.pack("<qI", 0, 0)
        + header
        + block
    )


def tensor(number: int, *shape: int, dead: int = 0) -> bytes:
    return struct.pack("<BBB", number, len(shape), dead) + struct.pack(f"<{len(shape)}Q", *shape)


FLOAT, STRING, RESOURCE, VARIANT = 1, 7, 20, 21


@pytest.mark.parametrize(
    "data",
    [
        raw(1, b""),
        raw(2, tensor(FLOAT, 1), b"1234"),
        raw(1, tensor(FLOAT, 2), b"1234"),
        raw(1, tensor(FLOAT, 1 << 62, 1 << 62), b"1234"),
        raw(1, tensor(FLOAT, 0, (1 << 64) - 1)),
        raw(1, tensor(FLOAT, *[1] * 200), b"1234"),
        raw(1, tensor(99, 1), b"1234"),
        raw(1, tensor(0, 1), b"1234"),
        raw(1, tensor(101, 1), b"1234"),
        raw(1, tensor(RESOURCE, 1), bytes(64)),
        raw(1, tensor(VARIANT, 1), bytes(64)),
        raw(1, tensor(STRING, 1)),
        raw(1, tensor(STRING, 1) + struct.pack("<Q", 8), struct.pack("<Q", 5)),
        raw(1, tensor(STRING, 2) + struct.pack("<Q", 17), struct.pack("<QQ", 2**64 - 1, 2) + b"x"),
        raw(1, tensor(STRING, 1 << 61) + struct.pack("<Q", 8), bytes(8)),
        raw(1, tensor(STRING, 0, (1 << 64) - 1) + struct.pack("<Q", 0)),
        raw(0, b"")[:PREFIX_BYTES] + struct.pack("<qI", 0, 4_000_000_000),
    ],
)
def test_parts_that_contradict_each_other_are_refused(data):
    with pytest.raises(ValueError):
        from_bytes(data)


@pytest.mark.parametrize(
    "start", [b"", b"GET / HTTP/1.1\r\n\r\n" + bytes(40), b"MRC1" + bytes([77]) + bytes(60)]
)
def test_bytes_that_are_no_start_of_a_message_are_refused(start):
    with pytest.raises(ValueError):
        Prefix(start[:PREFIX_BYTES])


def test_a_message_that_claims_to_be_absurdly_large_is_refused_before_memory_is_taken():
    huge = bytearray(to_bytes(Message(Kind.TENSORS))[:PREFIX_BYTES])
    huge[-16:-8] = struct.pack("<Q", 1 << 60)
    with pytest.raises(ValueError, match="too large"):
        Prefix(bytes(huge))


def test_random_damage_is_read_or_refused_but_nothing_else():
    draw = random.Random(7)
    good = to_bytes(
        Message(
            Kind.RUN,
            9,
            9,
            b"abc",
            [np.arange(10.0), np.array([b"a", b"bc"], object), DEAD, np.zeros((0, 2), np.int8)],
        )
    )
    refused = 0
    for _ in range(3000):
        data = bytearray(good)
        for _ in range(draw.randint(1, 4)):
            data[draw.randrange(4, len(data))] = draw.randrange(256)
        try:
            prefix = Prefix(bytes(data[:PREFIX_BYTES]))
            if prefix.block_bytes + prefix.header_bytes > 1 << 20:
                continue
            whole = bytes(data).ljust(PREFIX_BYTES + prefix.header_bytes + prefix.block_bytes)
            from_bytes(whole)
        except ValueError:
            refused += 1
    assert refused > 100


def test_messages_that_are_alike_are_read_alike():
    tensors = [np.arange(6.0).reshape(2, 3), DEAD, np.zeros([0, 4]), np.int32(7), np.ones(3, "?")]
    for turn in range(3):
        message = Message(Kind.TENSORS, turn, 5, tensors=[*tensors[:3], np.int32(turn), tensors[4]])
        found = from_bytes(to_bytes(message))
        np.testing.assert_array_equal(found.tensors[0], tensors[0])
        assert found.tensors[1] is DEAD
        assert found.tensors[2].shape == (0, 4)
        assert found.tensors[3] == turn and found.tensors[3].dtype == np.int32
        assert found.tensors[4].tolist() == [True] * 3


def test_a_shorter_block_is_refused_also_when_such_a_message_is_known():
    data = to_bytes(Message(Kind.TENSORS, 1, tensors=[np.arange(100.0)]))
    from_bytes(data)
    prefix = Prefix(data[:PREFIX_BYTES])
    header = data[PREFIX_BYTES : PREFIX_BYTES + prefix.header_bytes]
    for claimed in (8, 800):
        prefix.block_bytes = claimed
        with pytest.raises(ValueError, match="need more|cannot be read|too small"):
            decode(prefix, header, aligned_buffer(8))


def test_a_message_is_the_same_whether_its_tensors_are_copied_or_written_where_they_are():
    for size in (1, 500, 5_000):
        tensors = [np.arange(size, dtype=np.float64), np.int64(size), np.ones([0, 2])]
        message = Message(Kind.DONE, 3, 4, b"words", tensors)
        parts = encode(message)
        assert (len(parts) == 1) == (size < 512)
        found = from_bytes(to_bytes(message))
        assert found.text == b"words"
        for sent, received in zip(tensors, found.tensors, strict=True):
            np.testing.assert_array_equal(received, sent)


def test_an_array_that_is_still_to_be_written_arrives_written():
    made = Written((2, 3), np.float32, lambda place: place.fill(5))
    plain, written = through(np.arange(3), made)
    assert plain.tolist() == [0, 1, 2]
    assert written.dtype == np.float32 and written.tolist() == [[5, 5, 5], [5, 5, 5]]
