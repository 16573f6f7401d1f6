"""`tf.contrib.layers`: names, collections and values as TensorFlow 1.15 had them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import millrace as tf

layers = tf.contrib.layers


@pytest.fixture(autouse=True)
def _graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def names() -> list[str]:
    return [v.op.name for v in tf.global_variables()]


def test_variables_are_called_weights_and_biases_in_scopes_that_count() -> None:
    x = tf.placeholder(tf.float32, [None, 8, 8, 3])
    net = layers.conv2d(x, 4, 3)
    net = layers.conv2d(net, 4, 3, normalizer_fn=layers.batch_norm)
    assert net.op.name == "Conv_1/Relu"
    net = layers.max_pool2d(net, 2)
    assert net.op.name == "MaxPool2D/MaxPool"
    net = layers.flatten(net)
    net = layers.fully_connected(net, 5)
    assert net.op.name == "fully_connected/Relu"
    net = layers.linear(net, 2)
    assert net.op.name == "fully_connected_1/BiasAdd"
    assert names() == [
        "Conv/weights",
        "Conv/biases",
        "Conv_1/weights",
        "Conv_1/BatchNorm/beta",
        "Conv_1/BatchNorm/moving_mean",
        "Conv_1/BatchNorm/moving_variance",
        "fully_connected/weights",
        "fully_connected/biases",
        "fully_connected_1/weights",
        "fully_connected_1/biases",
    ]
    assert tf.contrib.framework.get_model_variables() == tf.global_variables()
    assert len(tf.trainable_variables()) == len(names()) - 2
    assert len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == 2


def test_regularizers_make_losses_and_reuse_makes_no_more() -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    regularizer = layers.l2_regularizer(0.5)
    layers.fully_connected(x, 2, weights_regularizer=regularizer, scope="fc")
    layers.fully_connected(x, 2, weights_regularizer=regularizer, scope="fc", reuse=True)
    (loss,) = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    assert loss.op.name == "fc/kernel/Regularizer/l2_regularizer"
    (weights,) = tf.contrib.framework.get_variables_by_name("weights")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        value, w = session.run([loss, weights])
    np.testing.assert_allclose(value, 0.25 * (w**2).sum(), rtol=1e-6)


def test_collections_of_variables_and_outputs() -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    y = layers.fully_connected(
        x, 2, scope="fc", variables_collections={"weights": ["w"]}, outputs_collections="out"
    )
    assert [v.op.name for v in tf.get_collection("w")] == ["fc/weights"]
    assert layers.utils.convert_collection_to_dict("out") == {"fc": y}


def test_arg_scope_sets_what_a_call_leaves_out() -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    with tf.contrib.framework.arg_scope(
        [layers.fully_connected], activation_fn=tf.nn.elu, biases_initializer=None
    ):
        first = layers.fully_connected(x, 2)
        second = layers.fully_connected(x, 2, activation_fn=None)
    assert (first.op.type, second.op.type) == ("Elu", "MatMul")
    assert names() == ["fully_connected/weights", "fully_connected_1/weights"]


@pytest.mark.parametrize("fused", [True, False])
def test_batch_norm_normalizes_and_moves_its_averages(fused: bool) -> None:
    x = tf.placeholder(tf.float32, [None, 4, 4, 2])
    training = tf.placeholder(tf.bool, [])
    y = layers.batch_norm(x, decay=0.5, is_training=training, fused=fused, scope="bn")
    data = np.random.RandomState(0).randn(5, 4, 4, 2).astype(np.float32) * 3 + 2
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        _, value = session.run([updates, y], {x: data, training: True})
        np.testing.assert_allclose(value.mean((0, 1, 2)), [0, 0], atol=1e-5)
        np.testing.assert_allclose(value.std((0, 1, 2)), [1, 1], atol=1e-3)
        mean = session.run(tf.contrib.framework.get_variables_by_name("moving_mean")[0])
        np.testing.assert_allclose(mean, data.mean((0, 1, 2)) / 2, rtol=1e-4)
        session.run(updates, {x: data, training: False})
        again = session.run(tf.contrib.framework.get_variables_by_name("moving_mean")[0])
        np.testing.assert_array_equal(again, mean)


def test_batch_norm_without_collections_moves_them_before_its_output() -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    y = layers.batch_norm(x, decay=0.9, updates_collections=None, scope="bn")
    assert not tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(y, {x: np.ones([2, 3], np.float32)})
        mean = session.run("bn/moving_mean:0")
    np.testing.assert_allclose(mean, [0.1, 0.1, 0.1], rtol=1e-5)


def test_layer_instance_and_group_norm() -> None:
    data = np.random.RandomState(1).randn(2, 3, 4, 6).astype(np.float32) * 2 + 1
    x = tf.constant(data)
    outputs = [
        layers.layer_norm(x),
        layers.instance_norm(x),
        layers.group_norm(x, groups=3),
    ]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        layer, instance, group = session.run(outputs)
    np.testing.assert_allclose(layer.mean((1, 2, 3)), np.zeros(2), atol=1e-5)
    np.testing.assert_allclose(instance.std((1, 2)), np.ones((2, 6)), atol=1e-3)
    grouped = group.reshape(2, 3, 4, 3, 2)
    np.testing.assert_allclose(grouped.mean((1, 2, 4)), np.zeros((2, 3)), atol=1e-5)
    assert names()[:2] == ["LayerNorm/beta", "LayerNorm/gamma"]


def test_stack_and_repeat_number_their_scopes() -> None:
    x = tf.placeholder(tf.float32, [None, 8, 8, 1])
    net = layers.repeat(x, 2, layers.conv2d, 3, [3, 3], scope="conv")
    layers.stack(layers.flatten(net), layers.fully_connected, [4, 5], scope="fc")
    assert [n for n in names() if n.endswith("weights")] == [
        "conv/conv_1/weights",
        "conv/conv_2/weights",
        "fc/fc_1/weights",
        "fc/fc_2/weights",
    ]


def test_embeddings_of_sequences() -> None:
    ids = tf.constant([[1, 2, 2], [0, 1, 3]])
    plain = layers.embed_sequence(ids, 5, 4, scope="e")
    unique = layers.embed_sequence(ids, 5, 4, unique=True, scope="e", reuse=True)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first, second = session.run([plain, unique])
    np.testing.assert_array_equal(first, second)
    assert first.shape == (2, 3, 4)
    with pytest.raises(ValueError, match="Must specify vocab size"):
        layers.embed_sequence(ids)


def test_errors_name_what_is_wrong() -> None:
    flat = tf.placeholder(tf.float32, [None])
    with pytest.raises(ValueError, match="incompatible with the layer"):
        layers.fully_connected(flat, 2)
    with pytest.raises(ValueError, match="not supported for input with rank"):
        layers.convolution(tf.placeholder(tf.float32, [None, 3]), 2, 3)
    with pytest.raises(ValueError, match="scale cannot be an integer"):
        layers.l2_regularizer(1)
    with pytest.raises(ValueError, match="NCHW or NHWC"):
        layers.batch_norm(tf.zeros([2, 2]), data_format="HWCN")
