"""Summaries and event files, read back with TensorBoard's own reader."""

from __future__ import annotations

import io
import wave

import numpy as np
import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util

import millrace as tf


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
    with pytest.warns(UserWarning, match="closed FileWriter"):
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


def one_value(tensor):
    (value,) = evaluate(tensor).value
    return value


def pixels(value):
    return np.asarray(Image.open(io.BytesIO(value.image.encoded_image_string)))


def test_numbers_keep_their_type_on_the_way_into_a_summary():
    histogram = tf.summary.histogram("h", np.array([1e-20, 1e30]))
    assert histogram.op.get_attr("T") == tf.float64
    assert one_value(histogram).histo.max == 1e30
    assert tf.summary.histogram("i", [1, 2]).op.get_attr("T") == tf.int32
    image = np.arange(12, dtype=np.uint8).reshape(1, 2, 2, 3)
    shown = one_value(tf.summary.image("im", image, max_outputs=1))
    assert shown.tag == "im/image"
    np.testing.assert_array_equal(pixels(shown), image[0])


def test_images_with_negative_numbers_are_centred_and_bad_pixels_are_marked():
    image = np.array([[[[-1.0], [0.0], [2.0], [np.nan]]]], np.float32)
    shown = one_value(tf.summary.image("im", image, max_outputs=1))
    assert pixels(shown).tolist() == [[64, 128, 255, 255]]


def test_sounds_are_waves_of_16_bits():
    samples = np.array([[0.0, 0.5, -0.5, 1.0, -1.0, 1.5 / 32768]], np.float32)
    sound = one_value(tf.summary.audio("s", samples, 8000.0, max_outputs=1)).audio
    with wave.open(io.BytesIO(sound.encoded_audio_string)) as file:
        assert (file.getframerate(), file.getsampwidth(), file.getnchannels()) == (8000, 2, 1)
        found = np.frombuffer(file.readframes(9), "<i2").tolist()
    # TensorFlow's rounding: halves away from zero, and no overflow at 1.
    assert found == [0, 16384, -16384, 32767, -32768, 2]
    assert (sound.sample_rate, sound.num_channels, sound.length_frames) == (8000, 1, 6)


def test_families_come_before_the_tag_as_in_tensorflow():
    assert one_value(tf.summary.scalar("a b", 1.5, family="my fam")).tag == "my_fam/my_fam/a_b"


def test_summaries_go_to_the_collections_that_are_named():
    kept = tf.summary.scalar("kept", 1.0, collections=["mine"])
    inner = tf.summary.scalar("q/inner", 1.0)
    assert tf.get_collection("mine") == [kept]
    assert tf.get_collection(tf.GraphKeys.SUMMARIES) == [inner]
    merged = tf.summary.merge([kept, inner], collections=["all"], name="together")
    assert tf.get_collection("all") == [merged]
    assert merged.op.name == "together/together"
    assert tf.summary.merge_all(scope="nowhere") is None
    assert [v.tag for v in evaluate(tf.summary.merge_all(scope="q")).value] == ["q/inner"]


def test_a_tensor_summary_carries_its_description():
    summary = tf.summary.tensor_summary(
        "t", [[1.0, 2.0]], summary_description="what it is", display_name="shown"
    )
    value = one_value(summary)
    assert value.metadata.summary_description == "what it is"
    assert value.metadata.display_name == "shown"
    assert tensor_util.make_ndarray(value.tensor).tolist() == [[1, 2]]


def test_tensorboard_reads_every_kind_of_summary(tmp_path):
    values = np.linspace(-1, 1, 20).astype(np.float32)
    merged = tf.summary.merge(
        [
            tf.summary.scalar("number", 0.25),
            tf.summary.histogram("spread", values),
            tf.summary.image("picture", np.full([1, 4, 5, 3], 0.5, np.float32)),
            tf.summary.audio("sound", values[None], 100.0),
            tf.summary.text("words", tf.constant(["one", "two"])),
        ]
    )
    with tf.Session() as sess, tf.summary.FileWriter(tmp_path, sess.graph) as writer:
        writer.add_session_log(tf.SessionLog(status=tf.SessionLog.START), 3)
        writer.add_summary(sess.run(merged), 3)
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [(e.step, e.value) for e in events.Scalars("number")] == [(3, 0.25)]
    assert events.Histograms("spread")[0].histogram_value.num == 20
    (picture,) = events.Images("picture/image/0")
    assert (picture.height, picture.width) == (4, 5)
    (sound,) = events.Audio("sound/audio/0")
    assert (sound.sample_rate, sound.content_type) == (100, "audio/wav")
    (words,) = events.Tensors("words")
    assert tensor_util.make_ndarray(words.tensor_proto).tolist() == [b"one", b"two"]
    assert events.SummaryMetadata("words").plugin_data.plugin_name == "text"
    assert len(events.Graph().node) == len(merged.graph.get_operations())
    assert events.MetaGraph().meta_info_def is not None


def test_events_reach_the_disk_when_the_queue_is_full(tmp_path):
    writer = tf.summary.FileWriter(
        str(tmp_path), max_queue=2, flush_secs=1000, filename_suffix=".x"
    )
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("events.out.tfevents.") and path.name.endswith(".x")

    def steps():
        return [e.step for e in tf.train.summary_iterator(str(path)) if e.HasField("summary")]

    summary = tf.Summary(value=[tf.Summary.Value(tag="t", simple_value=1.0)])
    writer.add_summary(summary, 1)
    writer.add_summary(summary.SerializeToString(), np.int64(2))
    assert steps() == [1, 2]
    writer.add_summary(summary, 3)
    writer.flush()
    assert steps() == [1, 2, 3]
    writer.close()
    writer.close()


def test_a_run_is_known_by_its_tag_once(tmp_path):
    with tf.summary.FileWriter(str(tmp_path)) as writer:
        writer.add_run_metadata(tf.RunMetadata(), "first", 1)
        with pytest.raises(ValueError, match="already used for this event type"):
            writer.add_run_metadata(tf.RunMetadata(), "first", 2)


def test_a_writer_refuses_what_it_cannot_write(tmp_path):
    with tf.summary.FileWriter(str(tmp_path)) as writer:
        assert writer.get_logdir() == str(tmp_path)
        with pytest.raises(TypeError, match="must be type MetaGraphDef, saw type: <class 'int'>"):
            writer.add_meta_graph(3)
        with pytest.raises(TypeError, match="instance of `Graph` or the deprecated `GraphDef`"):
            writer.add_graph(None)
        with pytest.raises(ValueError, match="pass only graph, or graph_def"):
            graph = tf.get_default_graph()
            writer.add_graph(graph, graph_def=graph.as_graph_def())
        with pytest.raises(TypeError, match="must be a Summary message"):
            writer.add_summary("text")


def test_a_folder_has_one_cached_writer(tmp_path):
    cache = tf.summary.FileWriterCache
    first = cache.get(str(tmp_path))
    try:
        assert cache.get(str(tmp_path)) is first
    finally:
        cache.clear()
    second = cache.get(str(tmp_path))
    cache.clear()
    assert second is not first


def test_ops_of_older_clients_are_known():
    tensor = tf.raw_ops.TensorSummary(tensor=[1.0], description='{"typeHint": "x"}', name="old")
    assert tf.summary.get_summary_description(tensor.op.node_def).type_hint == "x"
    value = one_value(tensor)
    assert (value.node_name, value.tensor.float_val[:]) == ("old", [1.0])
    with pytest.raises(ValueError, match="Can't get_summary_description on Const"):
        tf.summary.get_summary_description(tf.constant(1).op.node_def)
    sound = tf.raw_ops.AudioSummary(tag="s", tensor=[[0.5]], sample_rate=10.0, max_outputs=1)
    assert (one_value(sound).tag, one_value(sound).audio.sample_rate) == ("s/audio", 10)
