"""Stages that only update variables go through memory once."""

from __future__ import annotations

import numpy as np
import pytest

import millrace as tf
from millrace.runtime import stage_form
from millrace.runtime.plain_update import is_plain_update


@pytest.fixture
def chosen(monkeypatch):
    """Whether each stage that was compiled is a plain update."""
    found = []

    def note(nodes):
        found.append(is_plain_update(nodes))
        return found[-1]

    monkeypatch.setattr(stage_form, "is_plain_update", note)
    return found


def trained(gradient_of, shape, feed):
    with tf.Graph().as_default():
        fed = tf.placeholder(tf.float32, shape)
        variable = tf.get_variable("v", initializer=np.ones(shape, np.float32))
        step = tf.train.get_or_create_global_step()
        optimizer = tf.train.AdamOptimizer(0.5)
        train = optimizer.apply_gradients([(gradient_of(fed, variable), variable)], step)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for _ in range(2):
                session.run(train, {fed: feed})
            return session.run([variable, step])


def test_an_update_by_gradients_from_elsewhere_is_one(chosen):
    value, step = trained(lambda fed, _: fed, [3], [1.0, -1.0, 0.0])
    np.testing.assert_allclose(value, [0.0, 2.0, 1.0], atol=1e-5)
    assert step == 2
    assert True in chosen


def test_an_update_by_gradients_that_it_computes_is_none(chosen):
    trained(lambda fed, own: tf.matmul(own, fed), [2, 2], np.eye(2))
    assert True not in chosen


def test_arithmetic_on_more_than_single_numbers_is_none(chosen):
    trained(lambda fed, _: fed * [[1.0], [2.0]], [2, 2], np.eye(2))
    assert True not in chosen


def test_variables_of_one_size_and_several_shapes_are_updated_together(chosen):
    shapes = [(12,), (3, 4), (1, 12), (12, 1), (2, 2, 3)]
    with tf.Graph().as_default():
        fed = [tf.placeholder(tf.float32, shape) for shape in shapes]
        variables = [tf.Variable(tf.zeros(shape)) for shape in shapes]
        pairs = zip(fed, variables, strict=True)
        train = tf.train.MomentumOptimizer(1.0, 0.5).apply_gradients(pairs)
        feed = {p: np.ones(shape) for p, shape in zip(fed, shapes, strict=True)}
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for _ in range(2):
                session.run(train, feed)
            for value, shape in zip(session.run(variables), shapes, strict=True):
                np.testing.assert_allclose(value, np.full(shape, -2.5))
    assert True in chosen


def test_the_new_value_of_a_variable_can_be_had_with_its_update():
    with tf.Graph().as_default():
        fed = tf.placeholder(tf.float32, [2])
        variable = tf.Variable([1.0, 2.0], use_resource=False)
        train = tf.train.AdagradOptimizer(1.0, 3.0).apply_gradients([(fed, variable)])
        with tf.control_dependencies([train]):
            after = tf.identity(variable)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            value = session.run(after, {fed: [1.0, -1.0]})
            np.testing.assert_allclose(value, [0.5, 2.5])
            np.testing.assert_allclose(session.run(variable), value)


def test_copies_of_the_step_can_be_had_with_an_update(chosen):
    with tf.Graph().as_default():
        fed = [tf.placeholder(tf.float32, shape) for shape in ((2,), (3, 4), (4,))]
        variables = [tf.Variable(tf.zeros(p.shape)) for p in fed]
        step = tf.train.get_or_create_global_step()
        pairs = zip(fed, variables, strict=True)
        train = tf.train.AdamOptimizer(0.5).apply_gradients(pairs, step)
        with tf.control_dependencies([train]):
            tokens = tf.fill([4], step)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            feed = {p: np.ones(p.shape.as_list()) for p in fed}
            assert [session.run(tokens, feed).tolist() for _ in range(2)] == [[1] * 4, [2] * 4]
            np.testing.assert_allclose(session.run(variables[1]), np.full((3, 4), -1.0), atol=1e-5)
    assert True in chosen
