"""`tf.contrib.framework`: default arguments for a block, and variables by kind and name."""

from __future__ import annotations

import numpy as np
import pytest

import millrace as tf

framework = tf.contrib.framework


@framework.add_arg_scope
def layer(inputs, size=1, *, activation=None):
    """A layer."""
    return inputs, size, activation


@framework.add_arg_scope
def other(size=1):
    return size


def test_a_scope_gives_defaults_which_inner_scopes_and_calls_override() -> None:
    with framework.arg_scope([layer, other], size=2):
        assert layer("x") == ("x", 2, None)
        with framework.arg_scope([layer], size=3, activation="relu"):
            assert layer("x") == ("x", 3, "relu")
            assert layer("x", size=4) == ("x", 4, "relu")
            assert other() == 2
        assert layer("x") == ("x", 2, None)
    assert layer("x") == ("x", 1, None)


def test_a_scope_can_be_used_again() -> None:
    with framework.arg_scope([layer], size=2) as scope:
        pass
    with framework.arg_scope(scope):
        assert layer("x") == ("x", 2, None)
        assert framework.current_arg_scope() == scope
    with pytest.raises(ValueError, match="kwargs must be empty"), framework.arg_scope(scope, a=1):
        pass


def test_a_scope_ends_with_an_error_too() -> None:
    with pytest.raises(KeyError), framework.arg_scope([layer], size=2):
        raise KeyError
    assert layer("x") == ("x", 1, None)


def test_functions_that_do_not_take_part_are_refused() -> None:
    with pytest.raises(ValueError, match="is not decorated with @add_arg_scope"):
        framework.arg_scope([len], size=2).__enter__()
    with pytest.raises(TypeError, match="must either be a list/tuple or reused scope"):
        framework.arg_scope(layer, size=2).__enter__()
    assert framework.has_arg_scope(layer) and not framework.has_arg_scope(len)
    assert framework.arg_scoped_arguments(layer) == ("size", "activation")
    assert (layer.__name__, layer.__doc__) == ("layer", "A layer.")


def test_the_global_step_is_the_one_of_tf_train() -> None:
    assert framework.get_global_step() is None
    step = framework.get_or_create_global_step()
    assert step is tf.train.get_global_step()
    assert framework.assert_or_get_global_step() is step
    assert framework.assert_or_get_global_step(global_step_tensor=step) is step
    with pytest.raises(ValueError, match="already exists"):
        framework.create_global_step()


def test_variables_are_found_by_scope_name_and_suffix() -> None:
    with tf.variable_scope("a"):
        weights = framework.model_variable("weights", [2], initializer=tf.zeros_initializer())
        with tf.variable_scope("b"):
            inner = framework.variable("weights", [2])
            biases = framework.variable("biases", [2], trainable=False, device="/job:ps")
    local = framework.local_variable(0, name="local")
    shared = framework.global_variable(0, name="shared")
    assert framework.get_variables() == [weights, inner, biases, shared]
    assert framework.get_variables("a/b") == [inner, biases]
    assert framework.get_variables(suffix="weights") == [weights, inner]
    assert framework.get_variables_by_suffix("biases") == [biases]
    assert framework.get_variables_by_name("weights") == [weights, inner]
    assert framework.get_variables_by_name("weights", "a/b") == [inner]
    assert framework.get_unique_variable("a/weights") is weights
    with pytest.raises(ValueError, match="Couldn't find variable nothing"):
        framework.get_unique_variable("nothing")
    assert framework.get_model_variables() == [weights]
    assert framework.get_local_variables() == [local]
    assert framework.get_trainable_variables() == [weights, inner]
    assert framework.get_variables_to_restore(["a"], ["a/b/weights"]) == [weights, biases]
    assert framework.filter_variables(framework.get_variables(), ["weights"], ["b/"]) == [weights]
    assert biases.device == "/job:ps"
    framework.add_model_variable(inner)
    framework.add_model_variable(inner)
    assert framework.get_model_variables() == [weights, inner]


def test_variables_take_part_in_scopes() -> None:
    with framework.arg_scope([framework.variable], initializer=tf.ones_initializer(), shape=[3]):
        ones = framework.variable("ones")
    with tf.Session() as session:
        session.run(ones.initializer)
        assert session.run(ones).tolist() == [1, 1, 1]


def test_a_part_has_the_full_name_of_the_whole() -> None:
    whole = tf.get_variable("w", [4], partitioner=tf.fixed_size_partitioner(2))
    assert [framework.get_variable_full_name(v) for v in whole] == ["w", "w"]
    assert framework.get_variable_full_name(tf.Variable(1.0, name="x")) == "x"


def test_values_are_assigned_by_name() -> None:
    w = tf.Variable(np.zeros([2, 2], np.float32), name="w")
    assign = framework.assign_from_values_fn({"w": np.ones([2, 2])})
    with tf.Session() as session:
        session.run(w.initializer)
        assign(session)
        assert session.run(w).tolist() == [[1, 1], [1, 1]]
