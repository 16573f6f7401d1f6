"""Example messages with bytes that were changed, lost or put in: refused, never a crash."""

from __future__ import annotations

import random

import millrace as tf
from millrace.core import errors

FEATURES = {
    "numbers": tf.FixedLenFeature([3], tf.int64),
    "floats": tf.FixedLenFeature([2], tf.float32),
    "strings": tf.FixedLenFeature([2], tf.string),
    "varying": tf.VarLenFeature(tf.int64),
}


def message() -> bytes:
    feature = tf.train.Feature
    features = {
        "numbers": feature(int64_list=tf.train.Int64List(value=[-5, 300, 2**40])),
        "floats": feature(float_list=tf.train.FloatList(value=[0.5, -1.0])),
        "strings": feature(bytes_list=tf.train.BytesList(value=[b"abc", b""])),
        "varying": feature(int64_list=tf.train.Int64List(value=[1, 2])),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def damaged(rng: random.Random) -> bytes:
    data = bytearray(message())
    for _ in range(rng.randrange(1, 4)):
        place = rng.randrange(len(data))
        kind = rng.randrange(4)
        if kind == 0:
            data[place] = rng.randrange(256)
        elif kind == 1:
            del data[place : place + rng.randrange(1, 5)]
        elif kind == 2:
            data[place:place] = rng.randbytes(rng.randrange(1, 11))
        else:
            data[place:place] = b"\xff\xff\xff\xff\x7f"  # a length of 34 GB
    return bytes(data)


def test_damaged_examples_are_refused_or_parsed() -> None:
    rng = random.Random(7)
    refused = 0
    with tf.Graph().as_default(), tf.Session() as session:
        several = tf.placeholder(tf.string, [None])
        one = tf.placeholder(tf.string, [])
        steps = [
            (tf.parse_example(several, FEATURES), lambda data: {several: [data, message()]}),
            (tf.parse_single_example(one, FEATURES), lambda data: {one: data}),
            (
                tf.parse_single_sequence_example(
                    one, {"numbers": FEATURES["numbers"]},
                    {"varying": tf.FixedLenSequenceFeature([], tf.int64)},
                ),
                lambda data: {one: data},
            ),
        ]  # fmt: skip
        for _ in range(100):
            data = damaged(rng)
            for fetch, feed in steps:
                try:
                    session.run(fetch, feed(data))
                except errors.InvalidArgumentError:
                    refused += 1
        session.run(steps[0][0], {several: [message()]})
    assert refused > 100
