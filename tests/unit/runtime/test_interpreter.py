"""Regions of TensorFlow 1.x control flow that make no sense are refused by name."""

from collections.abc import Callable
from typing import Any

import pytest

import millrace as tf


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: tf.raw_ops.Switch(data=tf.constant([1, 2]), pred=tf.constant([True, False]))[0],
            r"predicate of Switch \(Switch\) must be a scalar",
        ),
        (lambda: tf.raw_ops.Exit(data=tf.constant("a")), r"Exit \(Exit\) is in no loop"),
    ],
)
def test_malformed_control_flow_is_an_invalid_argument(make: Callable[[], Any], words: str) -> None:
    made = make()
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=words):
        session.run(made.op)


@pytest.mark.parametrize("name", ["HistogramSummary", "ImageSummary", "AudioSummary"])
def test_a_tag_that_is_no_scalar_is_an_invalid_argument(name: str) -> None:
    tags = tf.placeholder(tf.string)
    made = {
        "HistogramSummary": lambda: tf.raw_ops.HistogramSummary(tag=tags, values=[1.0]),
        "ImageSummary": lambda: tf.raw_ops.ImageSummary(tag=tags, tensor=[[[[1.0]]]]),
        "AudioSummary": lambda: tf.raw_ops.AudioSummary(tag=tags, tensor=[[1.0]], sample_rate=1.0),
    }[name]()
    refused = pytest.raises(tf.errors.InvalidArgumentError, match="must be scalar")
    with tf.Session() as session, refused:
        session.run(made, {tags: [["a"], ["b"]]})
