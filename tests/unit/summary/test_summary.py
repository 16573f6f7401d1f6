"""Summaries and event files, read back with TensorBoard's own reader."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import millrace as tf


@pytest.fixture(autouse=True)
def fresh_graph():
    with tf.Graph().as_default():
        yield


def evaluate(tensor):
    with tf.Session() as sess:
        return tf.Summary.FromString(sess.run(tensor))


def test_a_scalar_summary_has_its_scope_as_tag():
    with tf.name_scope("train"):
        summary = tf.summary.scalar("loss value", 2.5)
    assert summary.op.name == "train/loss_value"
    (value,) = evaluate(summary).value
    assert (value.tag, value.simple_value) == ("train/loss_value", 2.5)


def test_a_histogram_counts_every_value_once():
    values = np.concatenate([np.zeros(3), np.linspace(-2, 5, 50)])
    (value,) = evaluate(tf.summary.histogram("h", values.astype(np.float32))).value
    assert value.histo.num == 53
    assert sum(value.histo.bucket) == 53
    assert value.histo.min == -2 and value.histo.max == 5
    assert list(value.histo.bucket_limit) == sorted(value.histo.bucket_limit)


def test_a_histogram_refuses_nan_and_names_its_tag():
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match="Nan .* bad"):
        sess.run(tf.summary.histogram("bad", [1.0, np.nan]))


def test_images_are_scaled_to_bytes_and_encoded_as_png():
    batch = np.stack([np.full([2, 3, 1], 0.5, np.float32), np.zeros([2, 3, 1], np.float32)])
    batch[0, 0, 0] = 1.0
    values = evaluate(tf.summary.image("im", batch, max_outputs=2)).value
    assert [v.tag for v in values] == ["im/image/0", "im/image/1"]
    picture = np.asarray(Image.open(io.BytesIO(values[0].image.encoded_image_string)))
    assert picture.shape == (2, 3)
    assert picture[0, 0] == 255 and picture[1, 1] == 127


def test_merged_summaries_refuse_one_tag_twice():
    a = tf.raw_ops.ScalarSummary(tags="t", values=1.0)
    with (
        tf.Session() as sess,
        pytest.raises(tf.errors.InvalidArgumentError, match="Duplicate tag t"),
    ):
        sess.run(tf.summary.merge([a, a]))


def test_merge_all_takes_what_the_graph_collected_and_none_when_there_is_nothing():
    assert tf.summary.merge_all() is None
    tf.summary.scalar("a", 1.0)
    tf.scalar_summary("b", 2.0)
    assert [v.tag for v in evaluate(tf.merge_all_summaries()).value] == ["a", "b"]


def test_tensorboard_reads_scalars_graph_and_run_metadata(tmp_path):
    x = tf.placeholder(tf.float32, [], name="x")
    merged = tf.summary.merge([tf.summary.scalar("loss", x), tf.summary.text("note", "hello")])
    with tf.Session() as sess, tf.train.SummaryWriter(str(tmp_path), sess.graph) as writer:
        for step in range(5):
            metadata = tf.RunMetadata()
            options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
            summary = sess.run(merged, {x: step * 0.5}, options, metadata)
            writer.add_summary(summary, step)
        writer.add_run_metadata(metadata, "step 4", 4)
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [(e.step, e.value) for e in events.Scalars("loss")] == [(i, i * 0.5) for i in range(5)]
    assert {n.name for n in events.Graph().node} >= {"x", "loss"}
    assert events.RunMetadata("step 4").step_stats.dev_stats


def test_a_closed_writer_drops_events_until_it_is_reopened(tmp_path):
    writer = tf.summary.FileWriter(str(tmp_path))
    writer.close()
    writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="t", simple_value=1.0)]), 1)
    writer.reopen()
    writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="t", simple_value=2.0)]), 2)
    writer.close()
    values = [
        value.simple_value
        for path in sorted(tmp_path.iterdir())
        for event in tf.train.summary_iterator(str(path))
        for value in event.summary.value
    ]
    assert values == [2.0]
