"""`tf.Graph`: names, look-ups, collections, what can be fed, finalizing. As TensorFlow does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf

# -- Names -----------------------------------------------------------------------------------


def test_a_name_is_given_once_whatever_its_case() -> None:
    wanted = ["a", "a", "A", "a_1", "a", "b/c", "b/c", "a.b", "a-b", "a>b"]
    assert [tf.no_op(name=name).name for name in wanted] == [
        "a", "a_1", "A_2", "a_1_1", "a_3", "b/c", "b/c_1", "a.b", "a-b", "a>b",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["_a", "a b", "-a", "a:b", "/a", "ä"])
def test_a_malformed_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not a valid root scope name"):
        tf.no_op(name=name)


def test_scopes_nest_are_made_unique_and_can_be_reentered(graph: tf.Graph) -> None:
    with tf.name_scope("s") as first:
        assert first == "s/"
        assert tf.no_op(name="n").name == "s/n"
    with tf.name_scope("s") as second:
        assert second == "s_1/"
    with tf.name_scope(first) as again:
        assert again == "s/"
        assert tf.no_op(name="n").name == "s/n_1"
    with tf.name_scope("s"):
        with tf.name_scope("t") as inner:
            assert inner == "s_2/t/"
        with tf.name_scope("t") as inner:
            assert inner == "s_2/t_1/"
        for root in (None, ""):
            with tf.name_scope(root) as empty:
                assert empty == ""
                assert tf.no_op(name="q").name in ("q", "q_1")
        assert graph.get_name_scope() == "s_2"
    assert graph.get_name_scope() == ""


def test_operations_and_scopes_share_their_names() -> None:
    with tf.name_scope("s"):
        pass
    assert tf.no_op(name="S").name == "S_1"
    assert tf.no_op(name="x/y").name == "x/y"
    with tf.name_scope("x") as scope:
        assert scope == "x/"


def test_unique_name_marks_only_when_told(graph: tf.Graph) -> None:
    assert graph.unique_name("s") == "s"
    assert graph.unique_name("s", mark_as_used=False) == "s_1"
    assert graph.unique_name("s") == "s_1"


def test_an_inner_scope_may_begin_with_an_underscore() -> None:
    with (
        pytest.raises(ValueError, match="'_s' is not a valid root scope name"),
        tf.name_scope("_s"),
    ):
        pass
    with tf.name_scope("o"), tf.name_scope("_s") as scope:
        assert scope == "o/_s/"
    with (
        pytest.raises(ValueError, match="'s t' is not a valid scope name"),
        tf.name_scope("o"),
        tf.name_scope("s t"),
    ):
        pass


def test_the_scope_function_takes_a_default_name_and_the_graph_of_its_values() -> None:
    with tf.name_scope(None, "default", []) as scope:
        assert scope == "default/"
    with tf.name_scope("given", "default", []) as scope:
        assert scope == "given/"
    with tf.Graph().as_default() as other:
        x = tf.constant(1)
    with tf.name_scope("z", values=[x]):
        assert tf.get_default_graph() is other
    with pytest.raises(ValueError, match="At least one of name .* and default_name"):
        tf.name_scope(None, None, [1]).__enter__()


def test_constants_made_for_an_operator_stand_under_its_name(graph: tf.Graph) -> None:
    x = tf.constant(1.0)
    y = x + 1.0
    z = tf.add(x, y, name="zz")
    _ = x * y - z / x
    assert [op.name for op in graph.get_operations()] == [
        "Const", "add/y", "add", "zz", "mul", "truediv", "sub",
    ]  # fmt: skip


# -- Look-ups --------------------------------------------------------------------------------


@pytest.fixture
def two(graph: tf.Graph) -> tf.Graph:
    tf.constant(1.0, name="c")
    tf.split(tf.constant([1.0, 2.0]), 2, name="sp")
    return graph


def test_elements_are_found_by_name_and_by_themselves(two: tf.Graph) -> None:
    op = two.get_operation_by_name("c")
    tensor = two.get_tensor_by_name("sp:1")
    assert two.as_graph_element("c") is op
    assert two.as_graph_element(b"c:0") is op.outputs[0]
    assert two.as_graph_element(tensor) is tensor
    assert two.as_graph_element(op) is op
    assert tensor.value_index == 1


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("zz", KeyError, "The name 'zz' refers to an Operation not in the graph."),
        ("zz:0", KeyError, "The operation, 'zz', does not exist in the graph."),
        (":0", KeyError, "The operation, '', does not exist in the graph."),
        ("c:1", KeyError, "The operation, 'c', exists but only has 1 outputs."),
        ("c:x", ValueError, "looks a like a Tensor name, but is not a valid one"),
        ("c:0:0", ValueError, "looks a like a Tensor name, but is not a valid one"),
        ("c:", ValueError, "looks a like a Tensor name, but is not a valid one"),
        (7, TypeError, "Can not convert a int into a Tensor or Operation."),
        (None, TypeError, "Can not convert a NoneType into a Tensor or Operation."),
    ],
)
def test_what_denotes_nothing_is_refused(two: tf.Graph, name: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind) as caught:
        two.as_graph_element(name)
    assert message in str(caught.value)


def test_the_wrong_kind_of_element_is_refused(two: tf.Graph) -> None:
    with pytest.raises(ValueError, match="'c:0' appears to refer to a Tensor"):
        two.get_operation_by_name("c:0")
    with pytest.raises(ValueError, match="'c' refers to an Operation, not a Tensor"):
        two.get_tensor_by_name("c")
    with pytest.raises(ValueError, match=r"'zz' looks like an \(invalid\) Operation name"):
        two.get_tensor_by_name("zz")
    with pytest.raises(TypeError, match="Operation names are strings .*, not bytes"):
        two.get_operation_by_name(b"c")
    with pytest.raises(TypeError, match="Tensor names are strings .*, not int"):
        two.get_tensor_by_name(7)
    with pytest.raises(TypeError, match="Can not convert a Tensor into a Operation"):
        two.as_graph_element(two.get_tensor_by_name("c:0"), allow_tensor=False)
    with pytest.raises(ValueError, match="can't both be False"):
        two.as_graph_element("c", allow_tensor=False, allow_operation=False)


def test_an_element_of_another_graph_is_refused(two: tf.Graph) -> None:
    with tf.Graph().as_default():
        other = tf.constant(1.0, name="o")
    for element in (other, other.op):
        with pytest.raises(ValueError, match="is not an element of this graph"):
            two.as_graph_element(element)


def test_inputs_must_come_from_one_graph(graph: tf.Graph) -> None:
    mine = tf.constant(1.0)
    with tf.Graph().as_default():
        theirs = tf.constant(1.0)
        with pytest.raises(ValueError, match="must be from the same graph as"):
            tf.add(mine, theirs)
        # The inputs decide, not the default graph.
        assert tf.add(mine, 2.0).graph is graph


# -- Making operations directly --------------------------------------------------------------


def test_create_op_checks_what_it_is_given(graph: tf.Graph) -> None:
    one = tf.constant(1.0)
    made = graph.create_op("Neg", [one], [tf.float32], attrs={"T": tf.AttrValue(type=1)})
    assert made.outputs[0].shape.as_list() == []
    with pytest.raises(TypeError, match="Input #0 is not a tensor: 1.0"):
        graph.create_op("Neg", [1.0], [tf.float32])
    with pytest.raises(ValueError, match="missing attr 'T'"):
        graph.create_op("Neg", [one], [tf.float32])
    with pytest.raises(ValueError, match="Input 0 of node .* was passed int32 from Const_1:0"):
        graph.create_op("Neg", [tf.constant(1)], attrs={"T": tf.AttrValue(type=1)})
    with pytest.raises(ValueError, match="takes 1 inputs .* but 2 were given"):
        graph.create_op("Neg", [one, one], attrs={"T": tf.AttrValue(type=1)})
    with pytest.raises(tf.errors.NotFoundError, match="Op type not registered 'Foo'"):
        graph.create_op("Foo", [], [])


def test_an_operation_that_was_refused_leaves_no_trace(graph: tf.Graph) -> None:
    a, b = tf.zeros([2]), tf.zeros([3])
    with pytest.raises(ValueError, match="Dimensions must be equal"):
        tf.add(a, b, name="bad")
    assert a.consumers() == b.consumers() == []
    assert "bad" not in [op.name for op in graph.get_operations()]


# -- Collections -----------------------------------------------------------------------------


def test_collections_keep_what_is_added(graph: tf.Graph) -> None:
    tf.add_to_collection("a", 1)
    tf.add_to_collections(["a", "b", "a"], 3)
    tf.add_to_collections("cc", 4)
    assert (tf.get_collection("a"), tf.get_collection("b")) == ([1, 3], [3])
    assert tf.get_collection("cc") == [4]
    assert tf.get_collection("none") == []
    tf.get_collection("a").append(9)
    assert tf.get_collection("a") == [1, 3]
    tf.get_collection_ref("a").append(9)
    assert tf.get_collection("a") == [1, 3, 9]
    graph.clear_collection("a")
    assert tf.get_collection("a") == []
    assert sorted(graph.get_all_collection_keys()) == ["b", "cc"]


def test_a_scope_filters_members_by_their_names() -> None:
    with tf.name_scope("s"):
        v = tf.Variable(1.0, name="v")
    w = tf.Variable(1.0, name="sv")
    assert tf.get_collection("variables", scope="s") == [v, w]
    assert tf.get_collection("variables", scope="s/") == [v]
    assert tf.get_collection("variables", scope=".*v") == [v, w]
    tf.add_to_collection("mixed", 1)
    tf.add_to_collection("mixed", v)
    assert tf.get_collection("mixed", scope="s") == [v]


def test_only_names_that_are_strings_are_listed(graph: tf.Graph) -> None:
    tf.add_to_collection(("a", "tuple"), 1)
    assert graph.get_all_collection_keys() == []
    assert tf.get_collection(("a", "tuple")) == [1]


# -- Finalizing, feeding, and the rest -------------------------------------------------------


def test_a_finalized_graph_cannot_be_changed(graph: tf.Graph) -> None:
    assert not graph.finalized
    graph.finalize()
    assert graph.finalized
    for change in (
        lambda: tf.constant(1),
        lambda: tf.add_to_collection("q", 1),
        lambda: graph.clear_collection("q"),
    ):
        with pytest.raises(RuntimeError, match="Graph is finalized and cannot be modified."):
            change()


def test_what_must_not_be_fed_or_fetched_is_marked(graph: tf.Graph) -> None:
    a = tf.constant(1.0)
    assert graph.is_feedable(a) and graph.is_fetchable(a)
    graph.prevent_feeding(a)
    graph.prevent_fetching(a.op)
    assert not graph.is_feedable(a)
    assert not graph.is_fetchable(a) and not graph.is_fetchable(a.op)


def test_a_tensor_is_no_bool_sequence_or_array() -> None:
    a = tf.constant([1.0, 2.0], name="a")
    with pytest.raises(tf.errors.OperatorNotAllowedInGraphError, match="as a Python `bool`"):
        bool(a)
    with pytest.raises(TypeError, match="is not iterable"):
        list(a)
    with pytest.raises(TypeError, match="len is not well defined"):
        len(a)
    with pytest.raises(NotImplementedError, match="to a numpy array"):
        np.asarray(a)
    assert a == a and {a: 1}[a] == 1
    assert (a == tf.constant([1.0, 2.0])) is False


def test_set_shape_merges_and_refuses_contradictions() -> None:
    x = tf.placeholder(tf.float32)
    x.set_shape([None, 2])
    x.set_shape([3, None])
    assert x.shape.as_list() == [3, 2]
    with pytest.raises(ValueError) as caught:
        x.set_shape([4, 2])
    assert str(caught.value) == (
        "Dimension 0 in both shapes must be equal, but are 3 and 4. Shapes are [3,2] and [4,2]."
    )
    with pytest.raises(ValueError, match="Shapes must be equal rank, but are 2 and 1"):
        x.set_shape([3])


def test_elements_show_their_name_shape_and_type() -> None:
    assert repr(tf.constant(1.0)) == "<tf.Tensor 'Const:0' shape=() dtype=float32>"
    assert str(tf.constant([1.0, 2.0])) == 'Tensor("Const_1:0", shape=(2,), dtype=float32)'
    assert repr(tf.no_op()) == "<tf.Operation 'NoOp' type=NoOp>"
    assert str(tf.placeholder(tf.int32)) == 'Tensor("Placeholder:0", dtype=int32)'
    x = tf.placeholder(tf.int32, [None, 3])
    assert str(x) == 'Tensor("Placeholder_1:0", shape=(?, 3), dtype=int32)'


def test_attributes_can_be_read_and_scoped(graph: tf.Graph) -> None:
    a = tf.constant(1.0, name="a")
    assert a.op.get_attr("dtype") == tf.float32
    with pytest.raises(ValueError, match="Operation 'a' has no attr named 'zz'."):
        a.op.get_attr("zz")
    with graph._attr_scope({"_x": tf.AttrValue(i=5)}):
        inside = tf.no_op()
        with graph._attr_scope({"_x": None}):
            outside = tf.no_op()
    assert inside.get_attr("_x") == 5
    assert not outside.node_def.attr


def test_gradient_overrides_are_written_on_the_operations(graph: tf.Graph) -> None:
    with graph.gradient_override_map({"Neg": "Other"}):
        made = tf.negative(tf.constant(1.0))
    assert made.op.get_attr("_gradient_op_type") == b"Other"
    for bad in ([], {"a": 1}, {1: "a"}):
        with (
            pytest.raises(TypeError, match="must be a dictionary mapping strings to strings"),
            graph.gradient_override_map(bad),
        ):
            pass


def test_the_container_is_written_on_stateful_operations(graph: tf.Graph) -> None:
    with graph.container("box"):
        v = tf.Variable(1.0, use_resource=False)
    assert v.op.get_attr("container") == b"box"


def test_a_graph_def_can_hold_only_what_is_new_and_say_shapes(graph: tf.Graph) -> None:
    a = tf.constant([1.0, 2.0], name="a")
    version = graph.version
    tf.negative(a, name="b")
    assert [n.name for n in graph.as_graph_def(from_version=version).node] == ["b"]
    shapes = graph.as_graph_def(add_shapes=True).node[1].attr["_output_shapes"].list.shape
    assert [d.size for d in shapes[0].dim] == [2]
    assert not graph.as_graph_def().HasField("library")


def test_operations_know_where_they_were_made() -> None:
    op = tf.no_op()
    assert op.traceback[-1].filename == __file__
    assert op.traceback[-1].line == "op = tf.no_op()"


# -- Defaults --------------------------------------------------------------------------------


def test_the_default_graph_follows_the_innermost_block(graph: tf.Graph) -> None:
    with tf.Graph().as_default() as inner:
        assert tf.get_default_graph() is inner
    assert tf.get_default_graph() is graph
    with pytest.raises(AssertionError, match="Do not use tf.reset_default_graph"):
        tf.reset_default_graph()


def test_running_needs_a_session_of_the_same_graph() -> None:
    a = tf.constant(1.0)
    with pytest.raises(ValueError, match=r"Cannot evaluate tensor using `eval\(\)`: No default"):
        a.eval()
    with pytest.raises(ValueError, match=r"Cannot execute operation using `run\(\)`: No default"):
        a.op.run()
    with tf.Session(graph=tf.Graph()) as session:
        with pytest.raises(ValueError, match="Cannot use the default session to evaluate tensor"):
            a.eval()
        with pytest.raises(ValueError, match="Cannot use the given session to execute operation"):
            a.op.run(session=session)
