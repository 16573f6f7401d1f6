"""`tf.get_variable`, variable scopes, partitioners, templates."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import millrace as tf

# -- Names ---------------------------------------------------------------------------------


def test_names_of_variables_come_from_variable_scopes_alone() -> None:
    with tf.variable_scope("a"), tf.name_scope("n"), tf.variable_scope("b"):
        v = tf.get_variable("w", [2])
        product = tf.multiply(v, 2.0, name="product")
    assert v.name == "a/b/w:0"
    assert product.name == "a/n/b/product:0"


def test_a_scope_that_is_opened_again_by_name_gets_a_new_name_scope() -> None:
    seen = []
    for _ in range(2):
        with tf.variable_scope("a") as scope:
            seen.append((scope.name, scope.original_name_scope, tf.constant(1).name))
    assert seen == [("a", "a/", "a/Const:0"), ("a", "a_1/", "a_1/Const:0")]


def test_default_names_are_made_unique_inside_their_scope() -> None:
    names = []
    for outer in ("x", "x", "y"):
        with tf.variable_scope(outer):
            for _ in range(2):
                with tf.variable_scope(None, "layer") as scope:
                    names.append(scope.name)
    # Scopes are counted within one opening of the scope around them.
    assert names == ["x/layer", "x/layer_1", "x/layer", "x/layer_1", "y/layer", "y/layer_1"]


def test_a_scope_object_is_entered_again_from_anywhere() -> None:
    with tf.variable_scope("a") as a:
        first = tf.get_variable("w", [2])
    with tf.variable_scope("elsewhere"), tf.variable_scope(a, reuse=True) as again:
        assert again.name == "a"
        assert again.original_name_scope == "a/"
        assert tf.get_variable("w", [2]) is first
        assert tf.constant(1).name == "elsewhere/a/Const:0"
    assert not a.reuse


def test_a_scope_may_leave_the_name_scope_alone() -> None:
    with tf.variable_scope("a", auxiliary_name_scope=False) as scope:
        assert tf.constant(1).name == "Const:0"
        assert tf.get_variable("w", [2]).name == "a/w:0"
        assert scope.original_name_scope == ""


def test_bad_scopes_are_refused() -> None:
    with pytest.raises(TypeError, match="If default_name is None then name_or_scope is required"):
        tf.variable_scope(None)
    with pytest.raises(TypeError, match="must be a string or VariableScope"):
        tf.variable_scope(3)
    with pytest.raises(ValueError, match="reuse=True cannot be used without a name_or_scope"):
        tf.variable_scope(None, "a", reuse=True)


def test_another_thread_has_scopes_of_its_own(graph: tf.Graph) -> None:
    names: list[str] = []

    def work() -> None:
        with graph.as_default(), tf.variable_scope("inner"):
            names.append(tf.get_variable_scope().name)

    with tf.variable_scope("outer"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert names == ["inner"]


# -- Reuse ---------------------------------------------------------------------------------


def test_a_second_variable_of_one_name_is_refused_and_the_first_one_shown() -> None:
    tf.get_variable("w", [2])
    with pytest.raises(ValueError, match="Variable w already exists, disallowed") as caught:
        tf.get_variable("w", [2])
    assert "reuse=tf.AUTO_REUSE" in str(caught.value)
    assert "test_variable_scope.py" in str(caught.value)


def test_reuse_finds_what_exists_and_refuses_what_does_not() -> None:
    with tf.variable_scope("a"):
        first = tf.get_variable("w", [2])
    with tf.variable_scope("a", reuse=True):
        assert tf.get_variable("w") is first
        assert tf.get_variable("w", [None]) is first
        with pytest.raises(ValueError, match="Variable a/v does not exist, or was not created"):
            tf.get_variable("v", [2])
        with pytest.raises(ValueError, match=r"specified shape \(3,\) and found shape \(2,\)"):
            tf.get_variable("w", [3])
        with pytest.raises(ValueError, match="specified dtype int32 and found dtype float32_ref"):
            tf.get_variable("w", [2], dtype=tf.int32)
        with tf.variable_scope("inner"):
            assert tf.get_variable_scope().reuse is True


def test_auto_reuse_makes_once_and_then_finds() -> None:
    def layer() -> Any:
        with tf.variable_scope("a", reuse=tf.AUTO_REUSE):
            return tf.get_variable("w", [2])

    assert layer() is layer()


def test_reuse_variables_turns_reuse_on_in_the_middle() -> None:
    with tf.variable_scope("a") as scope:
        first = tf.get_variable("w", [2])
        scope.reuse_variables()
        assert tf.get_variable("w", [2]) is first


# -- Defaults of scopes --------------------------------------------------------------------


def test_a_scope_gives_defaults_and_inner_ones_override_them() -> None:
    with tf.variable_scope("a", initializer=tf.ones_initializer(), dtype=tf.float64):
        one = tf.get_variable("one", [2])
        with tf.variable_scope("b", initializer=tf.constant_initializer(7)):
            seven = tf.get_variable("seven", [2])
        five = tf.get_variable("five", [2], initializer=tf.constant_initializer(5))
    assert {v.dtype.base_dtype for v in (one, seven, five)} == {tf.float64}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert [v.tolist() for v in session.run([one, seven, five])] == [[1, 1], [7, 7], [5, 5]]


def test_regularization_losses_are_collected_unless_a_scope_has_none() -> None:
    def regularizer(v: Any) -> Any:
        return tf.reduce_sum(v, name="penalty")

    with tf.variable_scope("a", regularizer=regularizer):
        tf.get_variable("w", [2])
        with tf.variable_scope("b", regularizer=tf.no_regularizer):
            tf.get_variable("w", [2])
    losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    assert [loss.name for loss in losses] == ["a/w/Regularizer/penalty:0"]


def test_the_flavour_is_inherited_from_the_scope() -> None:
    with tf.variable_scope("a", use_resource=True), tf.variable_scope("b"):
        assert type(tf.get_variable("w", [2])).__name__ == "ResourceVariable"
        assert type(tf.Variable(1.0)).__name__ == "ResourceVariable"


def test_custom_getters_nest_with_the_inner_one_first() -> None:
    calls: list[str] = []

    def getter(tag: str) -> Any:
        def custom(inner: Any, name: str, *args: Any, **kwargs: Any) -> Any:
            calls.append(f"{tag} {name}")
            return inner(name, *args, **kwargs)

        return custom

    with (
        tf.variable_scope("a", custom_getter=getter("outer")),
        tf.variable_scope("b", custom_getter=getter("inner")),
    ):
        v = tf.get_variable("w", [2])
    assert calls == ["inner a/b/w", "outer a/b/w"]
    assert v.name == "a/b/w:0"
    with pytest.raises(ValueError, match="custom_getter which is not callable"):
        tf.get_variable("v", [2], custom_getter=3)


def test_local_variables_are_in_their_collection_and_not_trained() -> None:
    v = tf.get_local_variable("w", [2])
    assert tf.local_variables() == [v]
    assert tf.global_variables() == tf.trainable_variables() == []


# -- Initial values ------------------------------------------------------------------------


def test_default_initial_values_depend_on_the_type() -> None:
    weights = tf.get_variable("weights", [50, 50])
    count = tf.get_variable("count", [3], dtype=tf.int32)
    words = tf.get_variable("words", [2], dtype=tf.string)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        limit = np.sqrt(6 / 100)
        found = session.run(weights)
        assert np.abs(found).max() <= limit
        assert np.abs(found).max() > 0.9 * limit
        assert session.run(count).tolist() == [0, 0, 0]
        assert session.run(words).tolist() == [b"", b""]
    with pytest.raises(ValueError, match="An initializer for variable c of"):
        tf.get_variable("c", [2], dtype=tf.complex64)


def test_a_value_as_initializer_gives_shape_and_type() -> None:
    v = tf.get_variable("v", initializer=[1, 2])
    assert (v.dtype.base_dtype, v.shape.as_list()) == (tf.int32, [2])
    with pytest.raises(ValueError, match="If initializer is a constant, do not specify shape"):
        tf.get_variable("w", [2], initializer=[1.0, 2.0])
    with pytest.raises(ValueError, match="don't match"):
        tf.get_variable("w", initializer=[1.0, 2.0], dtype=tf.int32)
    with pytest.raises(ValueError, match="its `shape` argument must be specified"):
        tf.get_variable("w")


# -- Partitions ----------------------------------------------------------------------------


def test_a_partitioner_cuts_a_variable_into_parts() -> None:
    whole = tf.get_variable(
        "w",
        initializer=np.arange(10, dtype=np.float32).reshape(5, 2),
        partitioner=tf.fixed_size_partitioner(2),
    )
    assert isinstance(whole, tf.PartitionedVariable)
    assert [v.name for v in whole] == ["w/part_0:0", "w/part_1:0"]
    assert [v.shape.as_list() for v in whole] == [[3, 2], [2, 2]]
    assert [v._save_slice_info.spec for v in whole] == ["5 2 0,3:0,2", "5 2 3,2:0,2"]
    assert whole.shape.as_list() == [5, 2]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        expected = np.arange(10).reshape(5, 2)
        np.testing.assert_array_equal(session.run(tf.identity(whole)), expected)
        session.run(whole.assign(np.ones((5, 2), np.float32)))
        np.testing.assert_array_equal(session.run(whole.as_tensor()), np.ones((5, 2)))


def test_an_initializer_is_told_of_the_whole() -> None:
    seen = []

    def initializer(shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        seen.append((shape, partition_info.full_shape, partition_info.var_offset))
        return tf.zeros(shape, dtype)

    tf.get_variable("w", [5, 2], initializer=initializer, partitioner=tf.fixed_size_partitioner(2))
    assert seen == [([3, 2], [5, 2], [0, 0]), ([2, 2], [5, 2], [3, 0])]


def test_partitioned_and_whole_variables_do_not_share_names() -> None:
    partitioner = tf.fixed_size_partitioner(2)
    first = tf.get_variable("a", [4], partitioner=partitioner)
    tf.get_variable("b", [4])
    with pytest.raises(ValueError, match="No partitioner was provided, but a partitioned version"):
        tf.get_variable("a", [4])
    with pytest.raises(ValueError, match="Partitioned variable with name a already exists"):
        tf.get_variable("a", [4], partitioner=partitioner)
    with pytest.raises(ValueError, match="an unpartitioned version of the variable was found"):
        tf.get_variable("b", [4], partitioner=partitioner)
    with tf.variable_scope("", reuse=True):
        assert tf.get_variable("a", [4], partitioner=partitioner) is first
        assert tf.get_variable("a", [4]) is first
        with pytest.raises(ValueError, match="specified partitions"):
            tf.get_variable("a", [4], partitioner=tf.fixed_size_partitioner(4))


def test_partitioners_answer_as_tensorflows_do() -> None:
    shape = tf.TensorShape([16, 4])
    by_bytes = tf.variable_axis_size_partitioner(100)
    assert by_bytes(shape=shape, dtype=tf.float32) == [3, 1]
    assert by_bytes(shape=shape, dtype=tf.string) == [16, 1]
    limited = tf.variable_axis_size_partitioner(64, max_shards=2)
    assert limited(shape=shape, dtype=tf.float32) == [2, 1]
    min_max = tf.min_max_variable_partitioner(max_partitions=40, min_slice_size=100)
    assert min_max(shape=shape, dtype=tf.float32) == [3, 1]
    assert tf.fixed_size_partitioner(20)(shape=shape, dtype=tf.float32) == [16, 1]
    assert tf.fixed_size_partitioner(2, axis=1)(shape=shape, dtype=tf.float32) == [1, 2]
    parts = tf.create_partitioned_variables([4, 2], [2, 1], tf.zeros_initializer(), name="p")
    assert [v.name for v in parts] == ["p/part_0:0", "p/part_1:0"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([2, 2], "Can only slice a variable along one dimension"),
        ([2], "does not match the Variable's rank"),
        ([0, 1], "zero partitions"),
        (3, "must return a sequence"),
    ],
)
def test_bad_partitions_are_refused(answer: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tf.get_variable("w", [4, 4], partitioner=lambda shape, dtype: answer)


# -- Templates -----------------------------------------------------------------------------


def test_a_template_makes_its_variables_once() -> None:
    def layer(x: float) -> Any:
        return tf.multiply(x, tf.get_variable("w", [2], initializer=tf.ones_initializer()))

    template = tf.make_template("layer", layer)
    with tf.name_scope("outer"):
        first = template(1.0)
    second = template(2.0)
    other = tf.make_template("layer", layer)
    other(3.0)
    assert [v.name for v in tf.global_variables()] == ["layer/w:0", "layer_1/w:0"]
    assert [t.op.name for t in (first, second)] == ["outer/layer/Mul", "layer/Mul"]
    assert template.trainable_variables == [tf.global_variables()[0]]


def test_a_template_that_makes_variables_later_is_refused() -> None:
    def layer() -> Any:
        return tf.Variable(1.0)

    template = tf.make_template("layer", layer)
    template()
    with pytest.raises(ValueError, match="perhaps you used tf.Variable when you meant"):
        template()
