"""Binary arithmetic: integer rules, NaN rules, types, names, operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf
from tests.unit.ops.conftest import run


def fed(*values: Any, dtype: Any = np.float32) -> tf.Tensor:
    """A tensor whose value is known only in the run."""
    array = np.array(values, dtype)
    return tf.placeholder_with_default(array, array.shape)


def nodes() -> list[tuple[str, str]]:
    return [
        (op.name, op.type)
        for op in tf.get_default_graph().get_operations()
        if not op.type.startswith("Placeholder")
    ]


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64])
def test_integer_quotients_and_remainders_have_the_signs_of_their_names(kind: Any) -> None:
    x, y = fed(5, -5, 5, -5, 7, dtype=kind), fed(3, 3, -3, -3, -7, dtype=kind)
    assert run(x // y).tolist() == [1, -2, -2, 1, -1]
    assert run(x % y).tolist() == [2, 1, -1, -2, 0]
    assert run(tf.truncatediv(x, y)).tolist() == [1, -1, -1, 1, -1]


def test_truncated_division_of_constants_is_that_of_fed_values() -> None:
    x, y = tf.constant([5, -5, 5, -5]), tf.constant([3, 3, -3, -3])
    assert run(tf.truncatediv(x, y)).tolist() == [1, -1, -1, 1]
    assert run(tf.truncatemod(x, y)).tolist() == [2, -2, 2, -2]


@pytest.mark.parametrize("operation", ["floordiv", "floormod", "truncatediv", "truncatemod", "div"])
def test_division_by_an_integer_zero_fails_the_step(operation: str) -> None:
    quotient = getattr(tf, operation)(fed(1, 2, dtype=np.int32), fed(1, 0, dtype=np.int32))
    with pytest.raises(tf.errors.InvalidArgumentError, match="Integer division by zero"):
        run(quotient)


def test_division_by_a_constant_zero_is_an_error_of_the_run_not_of_building() -> None:
    quotient = tf.constant(1) // tf.constant(0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Integer division by zero"):
        run(quotient)


def test_nothing_divided_by_zero_is_nothing() -> None:
    assert run(fed(dtype=np.int32) // 0).shape == (0,)


def test_the_least_integer_divided_by_minus_one_wraps() -> None:
    assert run(fed(-(2**31), dtype=np.int32) // fed(-1, dtype=np.int32)).tolist() == [-(2**31)]


def test_floor_division_of_floats_rounds_the_quotient() -> None:
    assert run(fed(5, -5, 0) // fed(np.inf, np.inf, 3)).tolist() == [0, 0, 0]
    assert run(fed(7, -7) // fed(2, 2)).tolist() == [3, -4]


def test_the_remainder_of_floats_has_the_sign_of_the_divisor() -> None:
    assert run(fed(5, -5, 5.5, 7) % fed(3, 3, -3, -3.5)).tolist() == [2, 1, -0.5, 0]
    assert run(fed(-5.0) % fed(np.inf)).tolist() == [np.inf]


@pytest.mark.parametrize(
    ("kind", "quotient"),
    [
        (np.int8, np.float32),
        (np.uint16, np.float32),
        (np.int32, np.float64),
        (np.int64, np.float64),
        (np.float16, np.float16),
    ],
)
def test_true_division_of_integers_is_in_floats_wide_enough(kind: Any, quotient: Any) -> None:
    result = run(fed(1, dtype=kind) / fed(4, dtype=kind))
    assert result.dtype == quotient
    assert result.tolist() == [0.25]


def test_types_are_never_promoted() -> None:
    with pytest.raises(TypeError, match="must have the same dtype"):
        fed(1) / fed(1, dtype=np.int32)
    with pytest.raises(TypeError, match="has type int32 that does not match type float32"):
        fed(1) * fed(1, dtype=np.int32)
    with pytest.raises(TypeError):
        fed(1, dtype=np.int32) + 1.5


def test_a_python_number_takes_the_type_of_the_tensor_beside_it() -> None:
    assert (fed(1, dtype=np.float16) + 1).dtype == tf.float16
    assert (2 - fed(1, dtype=np.int64)).dtype == tf.int64
    assert run(np.float64(2) ** fed(3)).tolist() == [8]


def test_integer_powers_must_not_be_negative() -> None:
    assert run(fed(2, 3, -2, dtype=np.int32) ** fed(3, 0, 3, dtype=np.int32)).tolist() == [8, 1, -8]
    with pytest.raises(tf.errors.InvalidArgumentError, match="negative integer powers"):
        run(tf.pow(fed(2, dtype=np.int32), fed(-1, dtype=np.int32)))


def test_extremes_of_nan_are_nan() -> None:
    x, y = fed(np.nan, 1, np.nan), fed(1, np.nan, np.nan)
    assert np.isnan(run(tf.maximum(x, y))).all()
    assert np.isnan(run(tf.minimum(x, y))).all()
    assert run(tf.clip_by_value(fed(np.nan, 5), 0.0, 2.0)).tolist()[1] == 2


def test_integers_wrap() -> None:
    assert run(fed(200, dtype=np.uint8) + fed(100, dtype=np.uint8)).tolist() == [44]
    assert run(fed(2**30, dtype=np.int32) * 4).tolist() == [0]


def test_shapes_that_do_not_broadcast_are_named_in_the_run() -> None:
    x = tf.placeholder_with_default(np.zeros([2, 3], np.float32), None)
    y = tf.placeholder_with_default(np.zeros([2, 4], np.float32), None)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"Incompatible shapes: \[2,3\] vs. \[2,4\]"
    ):
        run(x + y)


def test_operators_make_the_nodes_that_tensorflow_makes() -> None:
    x = tf.placeholder(tf.int32, [2])
    x / 2
    assert nodes() == [
        ("truediv/y", "Const"),
        ("truediv/Cast", "Cast"),
        ("truediv/Cast_1", "Cast"),
        ("truediv", "RealDiv"),
    ]


@pytest.mark.parametrize(
    ("expression", "name", "kind"),
    [
        (lambda x: x + x, "add", "AddV2"),
        (lambda x: x - x, "sub", "Sub"),
        (lambda x: x * x, "mul", "Mul"),
        (lambda x: x // x, "floordiv", "FloorDiv"),
        (lambda x: x % x, "mod", "FloorMod"),
        (lambda x: x**x, "pow", "Pow"),
        (lambda x: -x, "Neg", "Neg"),
        (lambda x: abs(x), "Abs", "Abs"),
        (lambda x: tf.add(x, x), "Add", "AddV2"),
        (lambda x: tf.div(x, x), "div", "RealDiv"),
        (lambda x: tf.divide(x, x, name="q"), "q", "RealDiv"),
    ],
)
def test_an_operation_is_named_as_in_tensorflow(expression: Any, name: str, kind: str) -> None:
    expression(tf.placeholder(tf.float32, [2]))
    assert nodes() == [(name, kind)]


def test_strings_are_joined_by_plus() -> None:
    joined = tf.constant(["a", "b"]) + "c"
    assert joined.op.type == "Add"
    assert run(joined).tolist() == [b"ac", b"bc"]


def test_gradients_are_summed_over_the_axes_along_which_an_input_was_repeated() -> None:
    x, y = fed([1.0, 2, 3], [4, 5, 6]), fed(1, 2, 3)
    grads = run(tf.gradients(x * y, [x, y]))
    assert grads[0].tolist() == [[1, 2, 3], [1, 2, 3]]
    assert grads[1].tolist() == [5, 7, 9]


def test_equal_static_shapes_need_no_reduction_in_the_gradient() -> None:
    x, y = (tf.placeholder(tf.float32, [2]) for _ in range(2))
    tf.gradients(x + y, [x, y])
    assert not {"Sum", "Reshape", "BroadcastGradientArgs"} & {kind for _, kind in nodes()}


def test_unknown_shapes_leave_the_axes_to_the_run() -> None:
    x, y = (tf.placeholder(tf.float32, [None]) for _ in range(2))
    (grad,) = tf.gradients(x * y, x)
    assert "BroadcastGradientArgs" in {kind for _, kind in nodes()}
    with tf.Session() as session:
        assert session.run(grad, {x: [2.0], y: [1.0, 2.0, 3.0]}).tolist() == [6]
        assert session.run(grad, {x: [1.0, 1.0], y: [5.0]}).tolist() == [5, 5]


def test_a_scalar_times_indexed_slices_stays_indexed_slices() -> None:
    slices = tf.IndexedSlices(fed(1, 2), tf.constant([0, 3]), tf.constant([4]))
    scaled = tf.scalar_mul(tf.constant(2.0), slices)
    assert isinstance(scaled, tf.IndexedSlices)
    assert run(scaled).values.tolist() == [2, 4]
    with pytest.raises(ValueError, match="must be a 0-D value"):
        tf.scalar_mul([1.0, 2.0], fed(1, 2))


def test_sums_of_lists_refuse_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="at least one Tensor"):
        tf.add_n([])
    with pytest.raises(ValueError, match="Dimension 0 in both shapes must be equal"):
        tf.add_n([fed(1), fed(1, 2)])
    unknown = [tf.placeholder_with_default(np.zeros(n, np.float32), None) for n in (1, 2)]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Input 0: \[1\] != input 1: \[2\]"):
        run(tf.add_n(unknown))


def test_the_sum_of_one_tensor_is_the_tensor() -> None:
    x = fed(1)
    assert tf.add_n([x]) is x
    assert tf.add_n([x], name="one").op.type == "Identity"


def test_old_names_answer() -> None:
    x = fed(1, 2)
    assert run(tf.mul(x, x)).tolist() == [1, 4]
    assert run(tf.sub(x, x)).tolist() == [0, 0]
    assert run(tf.neg(x)).tolist() == [-1, -2]
    assert run(tf.inv(x)).tolist() == [1, 0.5]
    assert run(tf.floor_div(x, 2.0)).tolist() == [0, 1]
    assert run(tf.complex_abs(tf.constant([3 + 4j]))).tolist() == [5]


def test_quotients_without_nan_are_zero_where_the_divisor_is() -> None:
    x, y = fed(1, 4), fed(0, 2)
    quotient = tf.div_no_nan(x, y)
    assert run(quotient).tolist() == [0, 2]
    assert all(np.isfinite(g).all() for g in run(tf.gradients(quotient, [x, y])))
    assert run(tf.math.multiply_no_nan(fed(np.inf), fed(0))).tolist() == [0]
