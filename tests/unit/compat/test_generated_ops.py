"""The functions that TensorFlow generates from op definitions."""

from __future__ import annotations

import inspect

import pytest

import millrace as tf
from millrace.compat import generated_ops
from millrace.graph import registry


def _function(module: str, name: str):
    return generated_ops.generated_function(f"python.{module}", name)


@pytest.mark.parametrize(
    ("module", "name", "parameters"),
    [
        ("ops.gen_control_flow_ops", "enter", "(data, frame_name, is_constant=False, parallel_ite"),
        ("ops.gen_control_flow_ops", "switch", "(data, pred, name=None)"),
        ("ops.gen_resource_variable_ops", "assign_variable_op", "(resource, value, name=None"),
        ("training.gen_training_ops", "apply_adam", "(var, m, v, beta1_power, beta2_power, lr, "),
        ("ops.gen_math_ops", "_sum", "(input, axis, keep_dims=False, name=None)"),
        ("ops.gen_nn_ops", "conv2d", "(input, filter, strides, padding, use_cudnn_on_gpu=True, "),
    ],
)
def test_parameters_have_tensorflows_names_order_and_defaults(
    module: str, name: str, parameters: str
) -> None:
    assert str(inspect.signature(_function(module, name))).startswith(parameters)


def test_every_recorded_parameter_is_there_in_its_place() -> None:
    checked = 0
    for module, functions in generated_ops.record().items():
        for name, function in functions.items():
            if registry.find(function.op_type) is not None:
                made = generated_ops.generated_function(module, name)
                expected = [*function.arguments, "name"]
                assert list(inspect.signature(made).parameters)[: len(expected)] == expected
                checked += 1
    assert checked > 700


def test_arguments_can_be_given_by_position() -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        product = _function("ops.gen_math_ops", "mat_mul")([[1.0, 2.0]], [[3.0, 4.0]], False, True)
        assert sess.run(product).tolist() == [[11.0]]
        assert _function("ops.gen_array_ops", "expand_dims")([1], 0).shape == [1, 1]


def test_updates_take_variables_of_references() -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.Variable([1.0, 2.0], use_resource=False)
        update = _function("training.gen_training_ops", "apply_gradient_descent")(
            v, 0.5, [2.0, 2.0]
        )
        sess.run(v.initializer)
        assert sess.run(update).tolist() == [0.0, 1.0]


def test_an_argument_too_many_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"switch\(\) too many positional arguments"):
        _function("ops.gen_control_flow_ops", "switch")(1, True, "name", 4)


def test_a_raw_op_takes_keywords_only() -> None:
    assert str(inspect.signature(tf.raw_ops.Sum)) == "(*, input, axis, keep_dims=False, name=None)"
    with pytest.raises(TypeError):
        tf.raw_ops.Sum([1.0], 0)
