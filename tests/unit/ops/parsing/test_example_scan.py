"""Batches of Examples that are read at once, against the parser that reads them one by one."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from millrace.data.example import Example
from millrace.ops.parsing import example_scan, example_template
from millrace.ops.parsing import example_wire as wire

KEYS = ["i", "price", "a long key of many letters", "words", "é", "twice", "absent"]
KINDS = (wire.BYTES_LIST, wire.FLOAT_LIST, wire.INT64_LIST)


def _message(draw: random.Random, keys: list[str], most: int) -> bytes:
    example = Example()
    for key in keys:
        feature = example.features.feature[key]
        count = draw.choice([0, 1, 1, 1, 2, most])
        if key in ("i", "twice"):
            integers = [draw.choice([0, 5, 300, 1 << 40, -1, -(1 << 63)]) for _ in range(count)]
            feature.int64_list.value.extend(integers)
        elif key == "price":
            feature.float_list.value.extend(draw.random() for _ in range(count))
        elif key == "words":
            feature.bytes_list.value.extend(
                draw.randbytes(draw.randint(0, 9)) for _ in range(count)
            )
        elif count:
            feature.float_list.value.extend([draw.random()] * count)
    return bytes(example.SerializeToString(deterministic=True))


def _same(batch: list[bytes], features: example_scan.ScannedFeatures) -> None:
    general = wire.FeatureMaps([wire.features_of(string) for string in batch])
    for key in KEYS:
        for kind in KINDS:
            for ours, theirs in zip(features.read(key, kind), general.read(key, kind), strict=True):
                np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("seed", range(20))
def test_any_batch_reads_as_its_messages_do_one_by_one(seed: int) -> None:
    draw = random.Random(seed)
    batch = []
    for _ in range(draw.choice([1, 7, 40])):
        keys = [
            *draw.sample(KEYS[:-1], draw.randint(0, 6)),
            *(f"other{i}" for i in range(seed % 3)),
        ]
        batch.append(_message(draw, keys, most=draw.choice([3, 200])))
    batch.append(b"")
    _same(batch, example_scan.ScannedFeatures(batch, KEYS))


def test_alike_messages_need_no_search_for_their_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(1)
    every = ["i", "price", "words", "twice", "not wanted"]
    batch = [_message(draw, every, most=3) for _ in range(50)]
    # What lacks a feature still has the others in this order.
    order = list(wire.features_of(max(batch, key=len)))
    for i, string in enumerate(batch):
        features = wire.features_of(string)
        parts = [
            _entry(key, features[key]) for key in order if key in features and draw.random() < 0.9
        ]
        batch[i] = b"\x0a" + _varint(sum(map(len, parts))) + b"".join(parts)
    monkeypatch.setattr(example_scan.ScannedFeatures, "_read_entries", None)
    example_scan._keys.cache_clear()
    _same(batch, example_scan.ScannedFeatures(batch, KEYS))


def _varint(value: int) -> bytes:
    result = b""
    while value >= 0x80:
        result += bytes([value & 0x7F | 0x80])
        value >>= 7
    return result + bytes([value])


def _entry(key: str, feature: bytes) -> bytes:
    name = key.encode()
    body = b"\x0a" + _varint(len(name)) + name + b"\x12" + _varint(len(feature)) + feature
    return b"\x0a" + _varint(len(body)) + body


@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_message_is_never_read_otherwise_than_protobuf_reads_it(seed: int) -> None:
    draw = random.Random(seed)
    accepted = 0
    for _ in range(120):
        batch = [_message(draw, ["i", "price", "words"], most=3) for _ in range(8)]
        which = draw.randrange(len(batch))
        damaged = bytearray(batch[which])
        for _ in range(draw.choice([1, 1, 2])):
            if damaged:
                damaged[draw.randrange(len(damaged))] = draw.choice(
                    [0, 1, 0x0A, 0x12, 0x1A, 0x7F, 0x80, 0xFF, draw.randrange(256)]
                )
        if draw.random() < 0.2:
            del damaged[draw.randrange(len(damaged) + 1) :]
        batch[which] = bytes(damaged)
        try:
            features = example_scan.ScannedFeatures(batch, KEYS)
            columns: dict[Any, Any] = {(k, w): features.read(k, w) for k in KEYS for w in KINDS}
        except example_scan.Irregular:
            continue
        accepted += 1
        try:
            general = wire.FeatureMaps([wire.features_of(string) for string in batch])
        except Exception:
            # TensorFlow's parser does not look whether keys are UTF-8 either.
            with pytest.raises(UnicodeDecodeError):
                bytes(damaged).decode()
            continue
        for (key, kind), column in columns.items():
            for ours, theirs in zip(column, general.read(key, kind), strict=True):
                np.testing.assert_array_equal(ours, theirs)
    assert accepted > 10


def test_numbers_of_one_length_are_read_as_one_block() -> None:
    draw = random.Random(3)
    batch, values = [], []
    for _ in range(9):
        example = Example()
        row = [draw.choice([0, 127, 128, 1 << 20, (1 << 55) - 1]) for _ in range(3)]
        for key, value in zip("abc", row, strict=True):
            example.features.feature[key].int64_list.value.append(value)
        values.append(row)
        batch.append(bytes(example.SerializeToString(deterministic=True)))
    features = example_scan.ScannedFeatures(batch, ["a", "b", "c"])
    block = features.equal(["c", "a"], wire.INT64_LIST, 1)
    np.testing.assert_array_equal(block[..., 0].T, np.array(values)[:, [2, 0]])
    assert features.equal(["a"], wire.FLOAT_LIST, 1) is None
    assert features.equal(["a"], wire.INT64_LIST, 2) is None


def test_a_length_that_needs_two_bytes_does_not_follow_a_template_of_one() -> None:
    """Its first byte may look like the short length that the template expects."""
    short, long = Example(), Example()
    short.features.feature["key"].bytes_list.value.append(b"x" * 20)
    long.features.feature["key"].bytes_list.value.append(b"x" * 119)
    batch = [bytes(m.SerializeToString(deterministic=True)) for m in (short, long)]
    message = example_scan.Message(batch)
    ends = np.cumsum([len(b) for b in batch])
    _, start, end = message.fields(ends - [len(b) for b in batch], ends)
    template = example_template.learn(message.joined[start[0] : end[0]], {b"key": 0})
    assert template is not None
    assert example_template.follow(template, message, start[:1], end[:1], 1) is not None
    assert example_template.follow(template, message, start, end, 1) is None


def test_integers_that_are_cut_off_are_not_joined_with_the_next_message() -> None:
    with pytest.raises(ValueError, match="cut off"):
        wire.varints(np.array([0x80, 0x01, *([1] * 40)], np.uint8), np.array([1, 41]))


@pytest.mark.parametrize(
    "entry",
    [
        b"\n\x1b\n\x1awords\x12\x12\n\x10\n\x04V\xce\x11@\n\x08\xd6I\x95\xbeVor\x0b",
        b"\n\x02\n\x00",
        b"\n",
        b"\n\x05\n\x01i\x12\x00",
        b"\n\x09\n\x01i\x12\x04\x1a\x02\n\x05",
    ],
)
def test_nothing_is_learnt_from_an_entry_whose_lengths_contradict_each_other(entry: bytes) -> None:
    assert example_template.learn(entry, {b"i": 0, b"words": 1}) is None


def test_a_key_of_one_letter_may_have_no_values() -> None:
    batch = []
    for i in range(20):
        example = Example()
        example.features.feature["i"].int64_list.value.extend([i] * (i % 3))
        if i == 7:
            example.features.feature["i"].Clear()
        batch.append(bytes(example.SerializeToString(deterministic=True)))
    _same(batch, example_scan.ScannedFeatures(batch, KEYS))
