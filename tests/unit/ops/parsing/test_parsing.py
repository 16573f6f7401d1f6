"""Parsing of Example messages: messages of errors, and what the parity cases do not reach."""

import numpy as np
import pytest

import millrace as tf
from millrace.core import errors
from millrace.data.example import Example, SequenceExample
from millrace.ops.parsing.parsing import parse_sequence_example


def example(**features):
    message = Example()
    for key, values in features.items():
        feature = message.features.feature[key]
        if values and isinstance(values[0], bytes):
            feature.bytes_list.value.extend(values)
        elif values and isinstance(values[0], float):
            feature.float_list.value.extend(values)
        elif values is not None:
            feature.int64_list.value.extend(values)
    return message.SerializeToString()


FIRST = example(i=[3], f=[0.5, 1.5], s=[b"a"], v=[1, 2, 3])
SECOND = example(f=[1.0, 2.0, 3.0])
FIXED, VARIABLE, ROWS = tf.FixedLenFeature, tf.VarLenFeature, tf.FixedLenSequenceFeature


def run(build):
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(build())


def fails(build, words):
    with tf.Graph().as_default(), tf.Session() as session:
        fetch = build()
        with pytest.raises(errors.InvalidArgumentError) as raised:
            session.run(fetch)
        assert words in str(raised.value)


@pytest.mark.parametrize(
    ("feature", "words"),
    [
        (
            {"i": FIXED([], tf.int64)},
            "Name: n1, Feature: i (data type: int64) is required but could not be found.",
        ),
        (
            {"f": FIXED([2], tf.float32)},
            "Name: n1, Key: f, Index: 1.  Number of float values != expected.  Values size: 3 but "
            "output shape: [2]",
        ),
        (
            {"f": FIXED([2], tf.int64)},
            "Name: n0, Key: f, Index: 0.  Data types don't match. Data type: float but expected "
            "type: int64",
        ),
        (
            {"f": VARIABLE(tf.int64)},
            "Name: n0, Key: f, Index: 0.  Data types don't match. Expected type: int64, Actual "
            "type: float",
        ),
        (
            {"f": ROWS([2], tf.float32, allow_missing=True)},
            "Name: n1, Key: f, Index: 1.  Number of float values is not a multiple of stride "
            "length. Saw 3 values but output shape is: [?,2]",
        ),
    ],
)
def test_a_wrong_feature_of_a_batch_is_named_with_its_example(feature, words):
    fails(lambda: tf.parse_example([FIRST, SECOND], feature, example_names=["n0", "n1"]), words)
    unnamed = words.replace("n0", "<unknown>").replace("n1", "<unknown>")
    fails(lambda: tf.parse_example([FIRST, SECOND], feature), unnamed)


@pytest.mark.parametrize(
    ("feature", "words"),
    [
        ({"i": FIXED([], tf.int64)}, "Feature: i (data type: int64) is required but could not"),
        ({"f": FIXED([2], tf.float32)}, "Key: f.  Can't parse serialized Example"),
        ({"f": FIXED([2], tf.int64)}, "Key: f.  Data types don't match. Data type: float but"),
        (
            {"f": ROWS([2], tf.float32, allow_missing=True)},
            "number of elements should be divisible by 2, found 3 instead",
        ),
    ],
)
def test_a_wrong_feature_of_one_example_is_named(feature, words):
    fails(lambda: tf.parse_single_example(SECOND, feature), words)


def test_garbage_is_quoted():
    fails(
        lambda: tf.parse_example([FIRST, b"garbage!"], {"f": VARIABLE(tf.float32)}),
        "Could not parse example input, value: 'garbage!'",
    )


@pytest.mark.parametrize(
    ("features", "error", "words"),
    [
        ({}, ValueError, "cannot be None or falsy"),
        ({"a": FIXED(None, tf.int64)}, ValueError, "Missing shape for feature a"),
        ({"a": FIXED([None], tf.int64)}, ValueError, "First dimension of shape for feature a"),
        ({"a": FIXED([1], None)}, ValueError, "Missing type for feature a"),
        ({"a": ROWS([], tf.int64)}, ValueError, "requires allow_missing to be True"),
        ({"a": FIXED([2], tf.int32)}, TypeError, "int32 not in"),
        ({"a": 3}, ValueError, "Unsupported int 3 for key 'a'"),
        ({"a": tf.SparseFeature("", "v", tf.float32, 3)}, ValueError, "Missing index_key"),
        (
            {"a": VARIABLE(tf.float32), "b": tf.SparseFeature("a", "v", tf.float32, 3)},
            ValueError,
            "Conflicting type",
        ),
    ],
)
def test_features_that_are_not_described_well_are_refused(features, error, words):
    with tf.Graph().as_default(), pytest.raises(error, match=words):
        tf.parse_example([FIRST], features)


def test_an_empty_batch_has_empty_columns():
    empty = np.empty([0], object)
    got = run(
        lambda: tf.parse_example(empty, {"f": VARIABLE(tf.float32), "g": FIXED([2], tf.float32)})
    )
    assert got["f"].dense_shape.tolist() == [0, 0]
    assert got["g"].shape == (0, 2)


def test_rows_are_padded_to_the_longest():
    features = {"f": ROWS([1], tf.float32, allow_missing=True, default_value=-1.0)}
    got = run(lambda: tf.parse_example([FIRST, SECOND], features))
    assert got["f"].tolist() == [[[0.5], [1.5], [-1.0]], [[1.0], [2.0], [3.0]]]


def test_the_parts_of_a_sparse_feature_are_not_outputs():
    batch = [example(ix=[4, 1], val=[1.0, 2.0]), example(ix=[0], val=[3.0])]
    features = {"sp": tf.SparseFeature("ix", "val", tf.float32, 10)}
    got = run(lambda: tf.parse_example(batch, features))
    assert set(got) == {"sp"}
    assert got["sp"].indices.tolist() == [[0, 1], [0, 4], [1, 0]]
    assert got["sp"].values.tolist() == [2, 1, 3]
    assert got["sp"].dense_shape.tolist() == [2, 10]
    both = {**features, "ix": VARIABLE(tf.int64)}
    assert set(run(lambda: tf.parse_example(batch, both))) == {"sp", "ix"}


def test_parsing_of_tensorflow_ones_own_op_types():
    batch = np.array([FIRST, example(v=[7])], object)
    got = run(
        lambda: tf.raw_ops.ParseExample(
            serialized=batch,
            names=np.empty([0], object),
            sparse_keys=["v"],
            dense_keys=["i"],
            dense_defaults=[np.array([9])],
            sparse_types=[tf.int64],
            dense_shapes=[[]],
        )
    )
    assert [part.tolist() for part in got[1]] == [[1, 2, 3, 7]]
    assert [part.tolist() for part in got[3]] == [[3, 9]]
    single = run(
        lambda: tf.raw_ops.ParseSingleExample(
            serialized=FIRST,
            dense_defaults=[np.float32([])],
            num_sparse=1,
            sparse_keys=["v"],
            dense_keys=["f"],
            sparse_types=[tf.int64],
            dense_shapes=[[2]],
        )
    )
    assert single[0][0].tolist() == [[0], [1], [2]]
    assert single[3][0].tolist() == [0.5, 1.5]


def sequence():
    message = SequenceExample()
    message.context.feature["id"].int64_list.value.append(7)
    for k in range(3):
        message.feature_lists.feature_list["t"].feature.add().int64_list.value.extend([k, k + 1])
        message.feature_lists.feature_list["s"].feature.add().bytes_list.value.extend([b"x"] * k)
    return message.SerializeToString()


def test_a_sequence_example_has_context_and_lists():
    context, lists = run(
        lambda: tf.parse_single_sequence_example(
            sequence(),
            {"id": FIXED([], tf.int64), "none": VARIABLE(tf.float32)},
            {
                "t": ROWS([2], tf.int64),
                "s": VARIABLE(tf.string),
                "absent": ROWS([3], tf.float32, allow_missing=True),
            },
        )
    )
    assert context["id"] == 7
    assert context["none"].dense_shape.tolist() == [0]
    assert lists["t"].tolist() == [[0, 1], [1, 2], [2, 3]]
    assert lists["s"].indices.tolist() == [[1, 0], [2, 0], [2, 1]]
    assert lists["s"].dense_shape.tolist() == [3, 2]
    assert lists["absent"].shape == (0, 3)


def test_a_batch_of_sequence_examples_is_padded():
    short = SequenceExample()
    short.feature_lists.feature_list["t"].feature.add().int64_list.value.extend([8, 9])
    batch = [sequence(), short.SerializeToString()]
    _, lists, lengths = run(
        lambda: parse_sequence_example(
            batch, {"id": FIXED([], tf.int64, 0)}, {"t": ROWS([2], tf.int64)}
        )
    )
    assert lengths["t"].tolist() == [3, 1]
    assert lists["t"].tolist() == [[[0, 1], [1, 2], [2, 3]], [[8, 9], [0, 0], [0, 0]]]


@pytest.mark.parametrize(
    ("context", "lists", "words"),
    [
        ({}, {"t": ROWS([3], tf.int64)}, "values size: 2 but output shape: [3]"),
        ({}, {"nope": ROWS([3], tf.int64)}, "Feature list 'nope' is required but could not be"),
        ({}, {"t": ROWS([2], tf.float32)}, "Feature list: t, Index: 0.  Data types don't match"),
        ({"id": VARIABLE(tf.float32)}, {}, "Context feature: id.  Data types don't match"),
        ({"q": FIXED([], tf.int64)}, {}, "feature q: expected 1, but found 0"),
    ],
)
def test_a_wrong_sequence_says_what_is_wrong(context, lists, words):
    fails(lambda: tf.parse_single_sequence_example(sequence(), context, lists), words)


def test_a_vector_is_not_one_example():
    with tf.Graph().as_default(), pytest.raises(ValueError, match="must be a scalar"):
        tf.parse_single_example([FIRST], {"i": FIXED([], tf.int64)})


def _list(kind, payload):
    return bytes([kind, len(payload)]) + payload


@pytest.mark.parametrize(
    ("feature", "kind", "expected"),
    [
        (b"\x1a\x03\x0a\x01\x05", tf.int64, [5]),
        (b"\x1a\x04\x08\x05\x08\x06", tf.int64, [5, 6]),  # not packed
        (b"\x1a\x05\x08\x05\x0a\x01\x07", tf.int64, [5, 7]),  # packed in parts
        (b"\x1a\x05\x0a\x03\x80\x80\x01", tf.int64, [16384]),
        (_list(0x1A, b"\x0a\x0a" + b"\xff" * 9 + b"\x01"), tf.int64, [-1]),
        (b"\x1a\x00", tf.int64, []),
        (b"", tf.int64, []),
        (b"\x12\x05\x0d\x00\x00\x80\x3f", tf.float32, [1.0]),
        (b"\x12\x06\x0a\x04\x00\x00\x80\x3f", tf.float32, [1.0]),
        (b"\x0a\x00\x12\x06\x0a\x04\x00\x00\x80\x3f", tf.float32, [1.0]),  # the last one counts
        (b"\x0a\x05\x0a\x00\x0a\x01a", tf.string, [b"", b"a"]),
        (b"\x0a\x86\x02\x0a\x83\x02" + b"x" * 259, tf.string, [b"x" * 259]),
    ],
)
def test_every_encoding_of_a_feature_is_read(feature, kind, expected):
    entry = b"\x0a\x01k\x12" + (
        bytes([len(feature)])
        if len(feature) < 128
        else bytes([len(feature) & 0x7F | 0x80, len(feature) >> 7])
    )
    entry += feature
    features = b"\x0a" + _varint(len(entry)) + entry
    serialized = b"\x0a" + _varint(len(features)) + features
    got = run(lambda: tf.parse_example([serialized], {"k": VARIABLE(kind)}))
    assert got["k"].values.tolist() == expected
    if expected:
        fixed = run(lambda: tf.parse_example([serialized], {"k": FIXED([len(expected)], kind)}))
        assert fixed["k"].tolist() == [expected]


def _varint(number):
    return bytes([number]) if number < 128 else bytes([number & 0x7F | 0x80, number >> 7])


@pytest.mark.parametrize("feature", [b"\x1a", b"\x1a\x09\x08", b"\x22\x00", b"\x1a\x02\x10\x05"])
def test_a_broken_feature_is_refused(feature):
    entry = b"\x0a\x01k\x12" + bytes([len(feature)]) + feature
    features = b"\x0a" + bytes([len(entry)]) + entry
    serialized = b"\x0a" + bytes([len(features)]) + features
    fails(lambda: tf.parse_example([serialized], {"k": VARIABLE(tf.int64)}), "Could not parse")
