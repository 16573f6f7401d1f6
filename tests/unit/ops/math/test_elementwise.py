"""Functions of one number: edges, rounding, types, and gradients of both orders."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import millrace as tf
from tests.unit.ops.conftest import fed, run

HALVES = [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]


@pytest.mark.parametrize("function", [tf.round, tf.rint])
def test_halves_are_rounded_to_even(function: Any) -> None:
    assert run(function(fed(HALVES))).tolist() == [-2, -2, 0, 0, 2, 2]
    assert run(function(tf.constant(HALVES))).tolist() == [-2, -2, 0, 0, 2, 2]


def test_rounding_integers_adds_no_node() -> None:
    x = fed([1], np.int32)
    assert tf.round(x) is x


def test_the_conjugate_and_the_real_part_of_a_real_tensor_are_the_tensor() -> None:
    x = fed([1.0])
    assert tf.conj(x) is x
    assert tf.real(x) is x
    assert run(tf.imag(x)).tolist() == [0]


def test_the_sign_of_nan_is_nan_and_that_of_zero_zero() -> None:
    signs = run(tf.sign(fed([np.nan, -0.0, 3.0])))
    assert math.isnan(signs[0])
    assert signs[1:].tolist() == [0, 1]
    np.testing.assert_allclose(run(tf.sign(fed([3 + 4j], np.complex128))), [0.6 + 0.8j])


def test_functions_of_floats_refuse_integers() -> None:
    with pytest.raises(TypeError, match="DataType int32 not in list of allowed values: bfloat16"):
        tf.exp(fed([1], np.int32))


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_results_have_the_type_of_the_argument(kind: Any) -> None:
    for function in (tf.exp, tf.sigmoid, tf.tanh, tf.rsqrt, tf.lgamma, tf.erf, tf.reciprocal):
        assert run(function(fed([0.5], kind))).dtype == kind
        assert run(function(tf.constant([0.5], kind))).dtype == kind


def test_the_sigmoid_saturates_without_nan() -> None:
    assert run(tf.sigmoid(fed([-1000.0, 0.0, 1000.0]))).tolist() == [0, 0.5, 1]
    assert run(tf.log_sigmoid(fed([-1000.0]))).tolist() == [-1000]


#: A function, and its first and second derivative at x.
DERIVATIVES: list[tuple[Any, Callable[..., float], Callable[..., float]]] = [
    (tf.square, lambda x: 2 * x, lambda x: 2),
    (tf.sqrt, lambda x: 0.5 * x**-0.5, lambda x: -0.25 * x**-1.5),
    (tf.rsqrt, lambda x: -0.5 * x**-1.5, lambda x: 0.75 * x**-2.5),
    (tf.reciprocal, lambda x: -(x**-2), lambda x: 2 * x**-3),
    (tf.inv, lambda x: -(x**-2), lambda x: 2 * x**-3),
    (tf.exp, math.exp, math.exp),
    (tf.log, lambda x: 1 / x, lambda x: -1 / x**2),
    (tf.tanh, lambda x: 1 - math.tanh(x) ** 2, lambda x: -2 * math.tanh(x) / math.cosh(x) ** 2),
    (tf.sin, math.cos, lambda x: -math.sin(x)),
    (tf.atan, lambda x: 1 / (1 + x * x), lambda x: -2 * x / (1 + x * x) ** 2),
    (tf.erf, lambda x: 2 / math.sqrt(math.pi) * math.exp(-x * x),
     lambda x: -4 * x / math.sqrt(math.pi) * math.exp(-x * x)),
]  # fmt: skip


@pytest.mark.parametrize(("function", "first", "second"), DERIVATIVES)
def test_first_and_second_derivatives(function: Any, first: Any, second: Any) -> None:
    x = fed(0.7, np.float64)
    (slope,) = tf.gradients(function(x), x)
    (bend,) = tf.gradients(slope, x)
    found = run([slope, bend])
    np.testing.assert_allclose(found, [first(0.7), second(0.7)], rtol=1e-12)


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (tf.sqrt, "SqrtGrad"),
        (tf.rsqrt, "RsqrtGrad"),
        (tf.tanh, "TanhGrad"),
        (tf.sigmoid, "SigmoidGrad"),
        (tf.reciprocal, "ReciprocalGrad"),
    ],
)
def test_gradients_use_tensorflows_named_ops(function: Any, kind: str) -> None:
    x = fed([1.0])
    (grad,) = tf.gradients(function(x), x)
    assert grad.op.type == kind


def test_the_gradient_of_a_complex_function_is_multiplied_by_the_conjugate() -> None:
    z, point = fed(1 + 2j, np.complex128), 1 + 2j
    upstream = tf.constant(1 + 0j, tf.complex128)
    (grad,) = tf.gradients(tf.exp(z), z, grad_ys=upstream)
    np.testing.assert_allclose(run(grad), np.conj(np.exp(point)))


def test_functions_that_keep_zeros_take_sparse_tensors() -> None:
    sparse = tf.SparseTensor([[0]], fed([-4.0]), [3])
    assert isinstance(tf.abs(sparse), tf.SparseTensor)
    assert run(tf.square(sparse)).values.tolist() == [16]


def test_infinite_parts_of_complex_numbers_survive() -> None:
    for real, imag in ((fed([np.inf]), fed([1.0])), (tf.constant([np.inf]), tf.constant([1.0]))):
        z = run(tf.complex(real, imag))
        assert (z.real.tolist(), z.imag.tolist()) == ([np.inf], [1.0])
    with pytest.raises(TypeError, match="incorrect types: float32 float64"):
        tf.complex(fed([1.0]), fed([1.0], np.float64))


def test_special_functions_at_their_poles() -> None:
    assert np.isnan(run(tf.digamma(fed([0.0, -1.0])))).all()
    assert run(tf.lgamma(fed([0.0, -1.0]))).tolist() == [np.inf, np.inf]


def test_parameters_of_special_functions_have_no_gradient() -> None:
    a, b, x = fed(2.0), fed(3.0), fed(0.25)
    grads = tf.gradients(tf.betainc(a, b, x), [a, b, x])
    assert grads[:2] == [None, None]
    np.testing.assert_allclose(run(grads[2]), 12 * 0.25 * 0.75**2, rtol=1e-5)
