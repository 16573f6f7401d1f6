"""Functions that bring their own derivative."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import millrace as tf


@pytest.fixture(autouse=True)
def session() -> Iterator[tf.Session]:
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_the_given_gradient_is_used(session: tf.Session) -> None:
    @tf.custom_gradient
    def double(x: Any) -> Any:
        return x * 2.0, lambda grad: grad * 10.0

    x = tf.constant(3.0)
    y = double(x)
    assert session.run([y, *tf.gradients(y, x)]) == [6.0, 10.0]
    assert session.run(tf.gradients(double(double(x)), x)) == [100.0]


def test_several_arguments_and_results(session: tf.Session) -> None:
    @tf.custom_gradient
    def both(x: Any, y: Any) -> Any:
        return [x * 2.0, y * 3.0], lambda dx, dy: (dx * 10.0, dy * 5.0)

    x, y = tf.constant(1.0), tf.constant(2.0)
    a, b = both(x, y)
    assert session.run([a, b, tf.gradients([a, b], [x, y])]) == [2.0, 6.0, [10.0, 5.0]]


@pytest.mark.parametrize(
    ("result", "kind"), [(lambda x: (x,), tuple), (lambda x: [x], list), (lambda x: {"a": x}, dict)]
)
def test_the_result_keeps_its_structure(result: Any, kind: Any) -> None:
    function = tf.custom_gradient(lambda x: (result(x), lambda grad: grad))
    assert type(function(tf.constant(1.0))) is kind


@pytest.mark.parametrize("use_resource", [False, True])
def test_variables_get_gradients_too(session: tf.Session, use_resource: bool) -> None:
    v = tf.get_variable("v", initializer=2.0, use_resource=use_resource)

    @tf.custom_gradient
    def scale(x: Any) -> Any:
        def gradient(grad: Any, variables: Any) -> Any:
            assert variables == [v]
            return grad * 5.0, [grad * 7.0]

        return x * v, gradient

    x = tf.constant(3.0)
    y = scale(x)
    session.run(v.initializer)
    assert session.run([y, *tf.gradients(y, [x, v])]) == [6.0, 5.0, 7.0]


def test_a_function_with_variables_must_take_them() -> None:
    v = tf.get_variable("v", initializer=2.0, use_resource=True)
    function = tf.custom_gradient(lambda x: (x * v, lambda grad: grad))
    with pytest.raises(TypeError, match="must accept keyword argument 'variables'"):
        function(tf.constant(1.0))


def test_mistakes_are_named() -> None:
    x = tf.constant(1.0)
    with pytest.raises(ValueError, match="keywords arguments only when eager"):
        tf.custom_gradient(lambda x, k=1.0: (x * k, lambda grad: grad))(x, k=2.0)
    wrong = tf.custom_gradient(lambda x, y: (x * y, lambda grad: grad))
    with pytest.raises(ValueError, match="Num gradients 2 generated"):
        tf.gradients(wrong(x, x), x)


def test_a_gradient_can_pass_through(session: tf.Session) -> None:
    x = tf.constant(1.6)
    y = tf.grad_pass_through(tf.round)(x)
    assert session.run([y, *tf.gradients(y, x)]) == [2.0, 1.0]


def test_recomputing_changes_no_result(session: tf.Session) -> None:
    x = tf.constant(3.0)
    y = tf.recompute_grad(tf.square)(x)
    assert session.run([y, *tf.gradients(y, x)]) == [9.0, 6.0]
