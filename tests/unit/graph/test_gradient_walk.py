"""The nodes with which a gradient begins have TensorFlow's names, and errors TensorFlow's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import millrace as tf


def begins(graph: tf.Graph) -> dict[str, str]:
    """Names and types of the nodes directly under the scope of the gradients."""
    nodes = [op for op in graph.get_operations() if op.name.startswith("gradients/")]
    return {op.name[10:]: op.type for op in nodes if "_grad/" not in op.name}


def test_a_gradient_begins_with_ones_named_as_in_tensorflow(graph: tf.Graph) -> None:
    x = tf.placeholder(tf.float32, [2])
    tf.gradients([tf.exp(x), tf.tanh(x)], x)
    assert begins(graph) == {
        "Shape": "Const",
        "grad_ys_0/Const": "Const",
        "grad_ys_0": "Fill",
        "Shape_1": "Const",
        "grad_ys_1/Const": "Const",
        "grad_ys_1": "Fill",
        "AddN": "AddN",
    }


def test_gradients_that_are_given_are_named_too(graph: tf.Graph) -> None:
    x = tf.placeholder(tf.float32, [None])
    tf.gradients([tf.exp(x), tf.tanh(x)], x, grad_ys=[None, [1.0, 2.0]])
    assert begins(graph) == {
        "grad_y_1": "Const",
        "Shape": "Shape",
        "grad_ys_0/Const": "Const",
        "grad_ys_0": "Fill",
        "grad_ys_1": "Identity",
        "AddN": "AddN",
    }


def test_slices_that_are_given_are_named_by_their_parts(graph: tf.Graph) -> None:
    x = tf.placeholder(tf.float32, [3, 2])
    slices = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([1]), tf.constant([2, 2]))
    tf.gradients(tf.gather(x, [0, 1]), x, grad_ys=[slices])
    assert begins(graph) == dict.fromkeys(
        ["grad_ys_0_indices", "grad_ys_0_values", "grad_ys_0_shape"], "Identity"
    )


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: tf.add(tf.constant(1.0), tf.constant(1)),
            "Input 'y' of 'AddV2' Op has type int32 that does not match type float32 of "
            "argument 'x'.",
        ),
        (
            lambda: tf.matmul(tf.zeros([1, 1]), tf.zeros([1, 1], tf.float64)),
            "Input 'b' of 'MatMul' Op has type float64 that does not match type float32 of "
            "argument 'a'.",
        ),
        (
            lambda: tf.assign(tf.Variable(1.0), tf.constant(1)),
            "Input 'value' of 'Assign' Op has type int32 that does not match type float32 of "
            "argument 'ref'.",
        ),
        (
            lambda: tf.concat([tf.constant([1.0]), tf.constant([1])], 0),
            "Tensors in list passed to 'values' of 'ConcatV2' Op have types [float32, int32] "
            "that don't all match.",
        ),
        (
            lambda: tf.raw_ops.DynamicStitch(indices=[tf.constant([0.0])], data=[[1.0]]),
            "Tensors in list passed to 'indices' of 'DynamicStitch' Op have types [float32] that "
            "do not match expected type int32.",
        ),
    ],
)
def test_an_input_of_another_type_is_told_apart_from_the_earlier_one(
    build: Callable[[], Any], message: str
) -> None:
    with pytest.raises(TypeError) as caught:
        build()
    assert str(caught.value) == message
