"""`tf.contrib.slim`: networks of the published sizes, training, evaluation, data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millrace as tf

slim = tf.contrib.slim
nets = slim.nets


@pytest.fixture(autouse=True)
def _graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


@pytest.mark.parametrize(
    ("base", "scope", "size", "parameters"),
    [
        (nets.inception.inception_v1_base, nets.inception.inception_v1_arg_scope, 224, 5607184),
        (nets.inception.inception_v2_base, nets.inception.inception_v2_arg_scope, 224, 10173112),
        (nets.inception.inception_v3_base, nets.inception.inception_v3_arg_scope, 299, 21802784),
    ],
)
def test_inception_networks_have_their_published_size(
    base: Callable[..., Any], scope: Callable[..., Any], size: int, parameters: int
) -> None:
    images = tf.placeholder(tf.float32, [5, size, size, 3])
    with slim.arg_scope(scope()):
        base(images)
    assert slim.model_analyzer.analyze_vars(slim.get_model_variables())[0] == parameters


def test_mobilenet_and_vgg_have_their_published_size() -> None:
    images = tf.placeholder(tf.float32, [1, 224, 224, 3])
    with slim.arg_scope([slim.conv2d, slim.separable_conv2d], normalizer_fn=slim.batch_norm):
        nets.mobilenet_v1.mobilenet_v1_base(images)
    assert slim.model_analyzer.analyze_vars(slim.get_model_variables())[0] == 3217920
    nets.vgg.vgg_16(images)
    assert slim.model_analyzer.analyze_vars(slim.get_model_variables("vgg_16"))[0] == 138357544


def test_resnet_names_its_end_points_and_variables() -> None:
    images = tf.placeholder(tf.float32, [2, 64, 64, 3])
    with slim.arg_scope(nets.resnet_v2.resnet_arg_scope()):
        logits, ends = nets.resnet_v2.resnet_v2_50(images, 7, is_training=False)
    assert logits.shape.as_list() == [2, 7]
    assert "resnet_v2_50/block1/unit_1/bottleneck_v2" in ends
    assert ends["resnet_v2_50/block4"].shape.as_list() == [2, 2, 2, 2048]
    names = [v.op.name for v in tf.global_variables()]
    assert "resnet_v2_50/block1/unit_1/bottleneck_v2/preact/gamma" in names
    assert "resnet_v2_50/block2/unit_1/bottleneck_v2/shortcut/weights" in names


def _loss() -> Any:
    x = tf.constant(np.random.RandomState(0).randn(32, 4).astype(np.float32))
    labels = slim.one_hot_encoding(tf.cast(x[:, 0] > 0, tf.int32), 2)
    with slim.arg_scope([slim.fully_connected], weights_regularizer=slim.l2_regularizer(1e-4)):
        logits = slim.fully_connected(slim.fully_connected(x, 8), 2, activation_fn=None)
    slim.losses.softmax_cross_entropy(logits, labels)
    return slim.losses.get_total_loss()


def test_learning_trains_saves_and_evaluates(tmp_path: Path) -> None:
    tf.set_random_seed(0)
    train_op = slim.learning.create_train_op(
        _loss(), tf.train.AdamOptimizer(0.05), clip_gradient_norm=5.0
    )
    folder = str(tmp_path / "run")
    loss = slim.learning.train(
        train_op, folder, number_of_steps=60, log_every_n_steps=20, save_summaries_secs=0
    )
    assert loss < 0.1
    with tf.Graph().as_default():
        values, updates = slim.metrics.aggregate_metric_map(
            {"loss": slim.metrics.streaming_mean(_loss())}
        )
        tf.train.get_or_create_global_step()
        found = slim.evaluation.evaluate_once(
            "",
            tf.train.latest_checkpoint(folder),
            None,
            num_evals=3,
            eval_op=list(updates.values()),
            final_op=values,
        )
    assert abs(found["loss"] - loss) < 0.05


def test_training_goes_on_from_the_last_checkpoint(tmp_path: Path) -> None:
    folder = str(tmp_path)
    for steps in (3, 5):
        with tf.Graph().as_default():
            train_op = slim.learning.create_train_op(
                _loss(), tf.train.GradientDescentOptimizer(1.0)
            )
            slim.learning.train(train_op, folder, number_of_steps=steps, log_every_n_steps=0)
    assert tf.train.latest_checkpoint(folder) == f"{folder}/model.ckpt-5"


def test_wrong_arguments_of_train_are_refused() -> None:
    train_op = slim.learning.create_train_op(_loss(), tf.train.GradientDescentOptimizer(0.1))
    with pytest.raises(ValueError, match="positive number"):
        slim.learning.train(train_op, None, number_of_steps=0)
    with pytest.raises(ValueError, match="Cannot provide saver"):
        slim.learning.train(train_op, None, saver=tf.train.Saver())
    with pytest.raises(ValueError, match="SyncReplicasOptimizer"):
        slim.learning.train(train_op, None, sync_optimizer=tf.train.AdamOptimizer())


def test_a_dataset_is_read_decoded_and_prefetched(tmp_path: Path) -> None:
    path = str(tmp_path / "data-0.tfrecord")
    with tf.python_io.TFRecordWriter(path) as writer:
        for i in range(6):
            feature = {
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[i])),
                "values": tf.train.Feature(float_list=tf.train.FloatList(value=[i, i + 0.5])),
            }
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())
    decoder = slim.tfexample_decoder.TFExampleDecoder(
        {
            "label": tf.FixedLenFeature([], tf.int64),
            "values": tf.FixedLenFeature([2], tf.float32),
        },
        {
            "label": slim.tfexample_decoder.Tensor("label"),
            "values": slim.tfexample_decoder.Tensor("values", shape=[2]),
        },
    )
    dataset = slim.dataset.Dataset(
        str(tmp_path / "data-*"), tf.TFRecordReader, decoder, 6, {"label": "", "values": ""}
    )
    provider = slim.dataset_data_provider.DatasetDataProvider(dataset, shuffle=False, num_epochs=1)
    label, values = provider.get(["label", "values"])
    batch = tf.train.batch([label, values], 3, num_threads=1)
    queue = slim.prefetch_queue.prefetch_queue(batch, capacity=2)
    labels, values = queue.dequeue()
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        with slim.queues.QueueRunners(session):
            first = session.run([labels, values])
    np.testing.assert_array_equal(first[0], [0, 1, 2])
    np.testing.assert_array_equal(first[1], [[0, 0.5], [1, 1.5], [2, 2.5]])
    with pytest.raises(ValueError, match=r"Item \[colour\] is invalid"):
        provider.get(["colour"])


def test_a_checkpoint_is_assigned_under_other_names(tmp_path: Path) -> None:
    tf.get_variable("old/w", initializer=[1.0, 2.0])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, str(tmp_path / "model"))
    with tf.Graph().as_default(), tf.Session() as session:
        w = tf.get_variable("new/w", shape=[2])
        other = tf.get_variable("new/b", initializer=[5.0])
        restore = slim.assign_from_checkpoint_fn(
            path, {"old/w": w, "old/b": other}, ignore_missing_vars=True
        )
        session.run(tf.global_variables_initializer())
        restore(session)
        np.testing.assert_array_equal(session.run(w), [1.0, 2.0])
        np.testing.assert_array_equal(session.run(other), [5.0])
        operation, feeds = slim.assign_from_checkpoint(path, {"old/w": w})
        session.run(operation, feeds)
        with pytest.raises(ValueError, match=r"missing variable \[old/b\]"):
            slim.assign_from_checkpoint(path, {"old/b": other})
