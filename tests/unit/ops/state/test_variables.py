"""`tf.Variable` in both flavours, and the functions on a graph's variables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.core import errors


@pytest.fixture(params=[False, True], ids=["reference", "resource"])
def use_resource(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def initialized(*variables: Any) -> tf.Session:
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    return session


def names_of_nodes(graph: tf.Graph) -> list[str]:
    return [f"{op.name} {op.type}" for op in graph.get_operations()]


# -- Nodes ---------------------------------------------------------------------------------


def test_a_reference_variable_has_tensorflows_nodes(graph: tf.Graph) -> None:
    with tf.device("/cpu:0"):
        tf.Variable(1.0, name="w")
    assert names_of_nodes(graph) == [
        "w/initial_value Const",
        "w VariableV2",
        "w/Assign Assign",
        "w/read Identity",
    ]
    assert {op.device for op in graph.get_operations()} == {"/device:CPU:0"}
    for name in ("w/Assign", "w/read"):
        assert graph.get_operation_by_name(name).get_attr("_class") == [b"loc:@w"]


def test_a_resource_variable_has_tensorflows_nodes(graph: tf.Graph) -> None:
    tf.Variable(1.0, name="w", use_resource=True)
    assert names_of_nodes(graph) == [
        "w/Initializer/initial_value Const",
        "w VarHandleOp",
        "w/IsInitialized/VarIsInitializedOp VarIsInitializedOp",
        "w/Assign AssignVariableOp",
        "w/Read/ReadVariableOp ReadVariableOp",
    ]
    assert graph.get_operation_by_name("w").get_attr("shared_name") == b"w"


def test_an_initial_value_from_a_function_is_built_beside_the_variable(
    graph: tf.Graph, use_resource: bool
) -> None:
    with tf.device("/job:ps"):
        variable = tf.Variable(lambda: tf.zeros([2]) + 1.0, name="w", use_resource=use_resource)
    add = graph.get_operation_by_name("w/Initializer/add")
    assert add.get_attr("_class") == [b"loc:@w"]
    assert add.device == ""
    assert variable.device == "/job:ps"
    assert variable.shape.as_list() == [2]


def test_names_are_unique_and_follow_name_scopes(use_resource: bool) -> None:
    first = tf.Variable(1.0, use_resource=use_resource)
    with tf.name_scope("layer"):
        second = tf.Variable(1.0, use_resource=use_resource)
        third = tf.Variable(1.0, use_resource=use_resource)
    assert [v.name for v in (first, second, third)] == [
        "Variable:0",
        "layer/Variable:0",
        "layer/Variable_1:0",
    ]


def test_a_variable_does_not_depend_on_control_dependencies_around_it(
    use_resource: bool,
) -> None:
    with tf.control_dependencies([tf.constant(1, name="before")]):
        variable = tf.Variable(1.0, use_resource=use_resource)
    assert not variable.op.control_inputs
    assert not variable.initializer.control_inputs


def test_collections_are_those_asked_for(use_resource: bool) -> None:
    weights = tf.Variable(1.0, use_resource=use_resource)
    step = tf.Variable(1.0, trainable=False, use_resource=use_resource)
    local = tf.Variable(
        1.0, collections=[tf.GraphKeys.LOCAL_VARIABLES], trainable=False, use_resource=use_resource
    )
    assert tf.global_variables() == [weights, step]
    assert tf.trainable_variables() == [weights]
    assert tf.local_variables() == [local]
    with pytest.raises(ValueError, match="must be a list, tuple, or set"):
        tf.Variable(1.0, collections="mine", use_resource=use_resource)


# -- Values --------------------------------------------------------------------------------


def test_it_is_read_like_a_tensor(use_resource: bool) -> None:
    v = tf.Variable([1.0, 2.0, 3.0], use_resource=use_resource)
    with initialized(v) as session:
        found = session.run([v, v + 1, 2 - v, v * v, -v, v[1], v[1:], tf.identity(v)])
    expected = [[1, 2, 3], [2, 3, 4], [1, 0, -1], [1, 4, 9], [-1, -2, -3], 2, [2, 3], [1, 2, 3]]
    for value, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(value, wanted)


def test_it_changes_by_assignment(use_resource: bool) -> None:
    v = tf.Variable([1.0, 2.0], use_resource=use_resource)
    with initialized(v) as session:
        assert session.run(v.assign([5.0, 6.0])).tolist() == [5, 6]
        assert session.run(v.assign_add([1.0, 1.0])).tolist() == [6, 7]
        assert session.run(tf.assign_sub(v, [2.0, 2.0])).tolist() == [4, 5]
        assert session.run(v.assign([0.0, 0.0], read_value=False)) is None
        assert session.run(v).tolist() == [0, 0]
        session.run(v.assign([3.0, 4.0]).op)
        assert v.eval(session).tolist() == [3, 4]


def test_changes_chain_in_order(use_resource: bool) -> None:
    v = tf.Variable([1.0], use_resource=use_resource)
    twice = tf.assign_add(tf.assign(v, [10.0]), [5.0])
    with initialized(v) as session:
        assert session.run(twice).tolist() == [15]
        assert session.run(v).tolist() == [15]


def test_a_read_after_a_change_sees_it(use_resource: bool) -> None:
    v = tf.Variable(1.0, use_resource=use_resource)
    change = v.assign_add(1.0)
    with tf.control_dependencies([change]):
        after = v.read_value()
    with initialized(v) as session:
        assert session.run(after) == 2
        assert session.run([after, change])[0] == 3


def test_rows_are_scattered_by_method_and_by_function(use_resource: bool) -> None:
    v = tf.Variable(np.zeros((3, 2), np.float32), use_resource=use_resource)
    delta = tf.IndexedSlices(tf.constant([[1.0, 2.0]]), tf.constant([2]))
    with initialized(v) as session:
        session.run(v.scatter_add(delta))
        session.run(v.scatter_sub(tf.IndexedSlices(tf.constant([[5.0, 5.0]]), tf.constant([0]))))
        found = session.run(tf.scatter_update(v, [1], [[7.0, 7.0]]))
        np.testing.assert_array_equal(found, [[-5, -5], [7, 7], [1, 2]])
        found = session.run(v.scatter_nd_add([[0, 0], [2, 1]], [5.0, 1.0]))
        np.testing.assert_array_equal(found, [[0, -5], [7, 7], [1, 3]])
        found = session.run(tf.batch_scatter_update(v, [[1], [0], [1]], [[9.0], [8.0], [7.0]]))
        np.testing.assert_array_equal(found, [[0, 9], [8, 7], [1, 7]])
    with pytest.raises(TypeError, match="not IndexedSlices"):
        v.scatter_add([1.0])


def test_a_slice_of_a_variable_can_be_assigned(use_resource: bool) -> None:
    v = tf.Variable(np.zeros((3, 2), np.float32), use_resource=use_resource)
    with initialized(v) as session:
        session.run(v[0].assign([1.0, 2.0]))
        session.run(v[1:, 1].assign([3.0, 4.0]))
        np.testing.assert_array_equal(session.run(v), [[1, 2], [0, 3], [0, 4]])


def test_counting_reaches_the_limit(use_resource: bool) -> None:
    v = tf.Variable(0, use_resource=use_resource)
    count = v.count_up_to(2)
    with initialized(v) as session:
        assert [session.run(count) for _ in range(2)] == [0, 1]
        with pytest.raises(errors.OutOfRangeError):
            session.run(count)


def test_load_sets_a_value_without_adding_to_the_graph(graph: tf.Graph, use_resource: bool) -> None:
    v = tf.Variable([1.0, 2.0], use_resource=use_resource)
    size = len(graph.get_operations())
    with tf.Session() as session:
        v.load([8.0, 9.0], session)
        assert session.run(v).tolist() == [8, 9]
        with pytest.raises(ValueError, match="Cannot feed value of shape"):
            v.load([1.0], session)
    assert len(graph.get_operations()) == size
    with pytest.raises(ValueError, match="Either session argument"):
        v.load([1.0, 2.0])


def test_a_fed_reference_variable_reads_as_what_was_fed() -> None:
    v = tf.Variable([1.0, 2.0])
    with tf.Session() as session:
        assert session.run(v + 1, {v: [7.0, 8.0]}).tolist() == [8, 9]


def test_shapes_that_do_not_fit_are_refused(use_resource: bool) -> None:
    v = tf.Variable([1.0, 2.0], use_resource=use_resource)
    unknown = tf.placeholder(tf.float32)
    with pytest.raises(ValueError):
        v.assign([1.0, 2.0, 3.0])
    with initialized(v) as session:
        with pytest.raises(errors.InvalidArgumentError, match=r"\[3\]"):
            session.run(v.assign(unknown), {unknown: [1.0, 2.0, 3.0]})
        assert session.run(v).tolist() == [1, 2]


def test_a_variable_without_validation_takes_any_shape() -> None:
    v = tf.Variable([1.0, 2.0], validate_shape=False)
    assert v.shape.ndims is None
    with initialized(v) as session:
        session.run(tf.assign(v, [[3.0]], validate_shape=False))
        assert session.run(v).tolist() == [[3]]


def test_bad_arguments_are_refused_by_name(use_resource: bool) -> None:
    with pytest.raises(ValueError, match="initial_value must be specified"):
        tf.Variable(use_resource=use_resource)
    with pytest.raises(ValueError, match="`constraint` argument must be a callable"):
        tf.Variable(1.0, constraint=3, use_resource=use_resource)
    with pytest.raises(ValueError, match="Incompatible type conversion"):
        tf.convert_to_tensor(tf.Variable(1.0, use_resource=use_resource), tf.int32)
    with pytest.raises(ValueError, match="must have a shape specified"):
        tf.Variable(tf.placeholder(tf.float32))


def test_a_variable_in_a_loop_needs_a_function_as_initial_value() -> None:
    with pytest.raises(ValueError, match="from inside a control-flow construct"):
        tf.while_loop(lambda i: i < 2, lambda i: tf.Variable(i) + 1, [0])


# -- Initialisation ------------------------------------------------------------------------


def test_reading_before_initialization_fails_and_names_the_variable(use_resource: bool) -> None:
    v = tf.Variable(1.0, name="weights", use_resource=use_resource)
    with tf.Session() as session:
        with pytest.raises(errors.FailedPreconditionError, match="weights"):
            session.run(v + 1)
        session.run(v.initializer)
        assert session.run(v + 1) == 2


def test_initial_values_may_depend_on_other_variables_in_any_order() -> None:
    first = tf.Variable(tf.constant([1.0, 2.0]) * 3)
    second = tf.Variable(first + 1)
    third = tf.Variable(second.initialized_value() * 2)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(third).tolist() == [8, 14]
    with tf.Session() as session:
        session.run(third.initializer)
        assert session.run(third).tolist() == [8, 14]
        session.run(first.initializer)
        session.run(first.assign([0.0, 0.0]).op)
        session.run(third.initializer)
        assert session.run(third).tolist() == [2, 2]


def test_an_initialized_value_of_a_resource_variable_is_its_value_or_its_initial_one() -> None:
    v = tf.Variable([1.0, 2.0], use_resource=True)
    value = v.initialized_value()
    with tf.Session() as session:
        assert session.run(value).tolist() == [1, 2]
        session.run(v.assign([3.0, 4.0]).op)
        assert session.run(value).tolist() == [3, 4]


def test_uninitialized_variables_are_reported(use_resource: bool) -> None:
    first = tf.Variable(1.0, name="first", use_resource=use_resource)
    second = tf.Variable(1.0, name="second", use_resource=use_resource)
    missing = tf.report_uninitialized_variables()
    assert missing.shape.as_list() == [None]
    with tf.Session() as session:
        assert session.run(missing).tolist() == [b"first", b"second"]
        session.run(first.initializer)
        assert session.run(missing).tolist() == [b"second"]
        assert session.run(tf.is_variable_initialized(first))
        with pytest.raises(errors.FailedPreconditionError, match="second"):
            session.run(tf.assert_variables_initialized([first, second]))
        session.run(tf.variables_initializer([second]))
        assert session.run(missing).tolist() == []
        session.run(tf.assert_variables_initialized())


def test_old_names_initialize_too() -> None:
    v = tf.Variable(1.0)
    local = tf.Variable(2.0, collections=[tf.GraphKeys.LOCAL_VARIABLES])
    with tf.Session() as session:
        session.run([tf.initialize_all_variables(), tf.initialize_local_variables()])
        assert session.run([v, local]) == [1, 2]
    assert tf.all_variables() == [v]


def test_strings_can_be_variables(use_resource: bool) -> None:
    v = tf.Variable(["a", "b"], use_resource=use_resource)
    with initialized(v) as session:
        assert session.run(v).tolist() == [b"a", b"b"]
        assert session.run(tf.assign(v, ["x", "y"])).tolist() == [b"x", b"y"]
        assert session.run(v).tolist() == [b"x", b"y"]


# -- Gradients -----------------------------------------------------------------------------


def test_gradients_reach_variables_through_their_reads(use_resource: bool) -> None:
    v = tf.Variable([1.0, 2.0], use_resource=use_resource)
    (gradient,) = tf.gradients(v * v, [v])
    with initialized(v) as session:
        assert session.run(gradient).tolist() == [2, 4]


def test_the_gradient_of_gathered_rows_is_sparse(use_resource: bool) -> None:
    v = tf.Variable(np.ones((4, 2), np.float32), use_resource=use_resource)
    (gradient,) = tf.gradients(tf.gather(v, [3, 1, 3]) * 2.0, [v])
    assert isinstance(gradient, tf.IndexedSlices)
    with initialized(v) as session:
        found = session.run(gradient)
    assert found.indices.tolist() == [3, 1, 3]
    np.testing.assert_array_equal(found.values, np.full((3, 2), 2.0))
    assert found.dense_shape.tolist() == [4, 2]


# -- Creators and messages -----------------------------------------------------------------


def test_creator_scopes_change_what_is_made() -> None:
    made: list[str] = []

    def creator(next_creator: Any, **kwargs: Any) -> Any:
        made.append(kwargs["name"])
        kwargs["use_resource"] = True
        return next_creator(**kwargs)

    with tf.variable_creator_scope(creator):
        inner = tf.Variable(1.0, name="a")
        tf.get_variable("b", [2])
    outer = tf.Variable(1.0, name="c")
    assert made == ["a", "b"]
    assert type(inner).__name__ == "ResourceVariable"
    assert type(outer).__name__ == "RefVariable"
    assert isinstance(inner, tf.Variable)
    assert isinstance(outer, tf.Variable)


def test_the_default_flavour_can_be_changed() -> None:
    tf.enable_resource_variables()
    try:
        assert type(tf.Variable(1.0)).__name__ == "ResourceVariable"
        assert tf.resource_variables_enabled()
    finally:
        tf.disable_resource_variables()
    assert type(tf.Variable(1.0)).__name__ == "RefVariable"


def test_a_variable_comes_back_from_its_message(use_resource: bool) -> None:
    with tf.name_scope("model"):
        v = tf.Variable([1.0, 2.0], name="w", use_resource=use_resource, trainable=False)
    message = v.to_proto()
    assert message.variable_name == "model/w:0"
    assert message.is_resource == use_resource
    again = tf.Variable.from_proto(message)
    assert again.name == v.name
    assert again.initializer is v.initializer
    assert again.shape == v.shape
    assert not again.trainable
    assert v.to_proto(export_scope="model").variable_name == "w:0"
    assert v.to_proto(export_scope="other") is None
    under = tf.Variable.from_proto(v.to_proto(export_scope="model"), import_scope="model")
    assert under.op is v.op


def test_a_variable_tells_what_it_is(use_resource: bool) -> None:
    v = tf.Variable([1.0, 2.0], name="w", use_resource=use_resource)
    kind = "float32" if use_resource else "float32_ref"
    assert repr(v) == f"<tf.Variable 'w:0' shape=(2,) dtype={kind}>"
    assert v.dtype.base_dtype == tf.float32
    assert v == v
    assert {v: 1}[v] == 1
    with pytest.raises(TypeError, match="not iterable"):
        iter(v)
