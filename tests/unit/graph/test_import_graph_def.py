"""`tf.import_graph_def`: names, inputs, attributes, scopes and errors as TensorFlow's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format
from tensorboard.compat.proto import graph_pb2, op_def_pb2

import millrace as tf

FLOAT = 'attr { key: "T" value { type: DT_FLOAT } }'
CONST = (
    'attr { key: "dtype" value { type: DT_FLOAT } } '
    'attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape {} float_val: 1 } } }'
)
FED = 'attr { key: "dtype" value { type: DT_FLOAT } }'


def parse(text: str) -> graph_pb2.GraphDef:
    return text_format.Parse(text, graph_pb2.GraphDef())


def sum_graph() -> graph_pb2.GraphDef:
    """a (fed) + b -> c, and n after c."""
    with tf.Graph().as_default() as graph:
        a = tf.placeholder(tf.float32, [2], name="a")
        b = tf.constant([1.0, 2.0], name="b")
        c = tf.add(a, b, name="c")
        with tf.control_dependencies([c]):
            tf.no_op(name="n")
    return graph.as_graph_def()


def layout(graph: tf.Graph) -> list[tuple[str, list[str], list[str]]]:
    return [
        (op.name, [t.name for t in op.inputs], [c.name for c in op.control_inputs])
        for op in graph.get_operations()
    ]


# -- Names -----------------------------------------------------------------------------------


def test_names_get_the_prefix_import(graph: tf.Graph) -> None:
    assert tf.import_graph_def(sum_graph()) is None
    assert layout(graph) == [
        ("import/a", [], []),
        ("import/b", [], []),
        ("import/c", ["import/a:0", "import/b:0"], []),
        ("import/n", [], ["import/c"]),
    ]


def test_a_second_import_gets_a_prefix_of_its_own(graph: tf.Graph) -> None:
    tf.import_graph_def(sum_graph())
    tf.import_graph_def(sum_graph())
    assert layout(graph)[-1] == ("import_1/n", [], ["import_1/c"])


def test_an_empty_name_means_no_prefix_even_inside_a_scope(graph: tf.Graph) -> None:
    with tf.name_scope("s"):
        tf.import_graph_def(sum_graph(), name="x")
        tf.import_graph_def(sum_graph(), name="")
    assert [op.name for op in graph.get_operations()] == [
        "s/x/a", "s/x/b", "s/x/c", "s/x/n", "a", "b", "c", "n",
    ]  # fmt: skip


def test_names_in_use_get_numbers_and_edges_follow(graph: tf.Graph) -> None:
    tf.import_graph_def(sum_graph(), name="")
    tf.import_graph_def(sum_graph(), name="")
    assert layout(graph)[4:] == [
        ("a_1", [], []),
        ("b_1", [], []),
        ("c_1", ["a_1:0", "b_1:0"], []),
        ("n_1", [], ["c_1"]),
    ]


def test_a_number_that_the_message_uses_itself_is_not_given(graph: tf.Graph) -> None:
    tf.no_op(name="C")  # The importer tells names apart by case.
    both = parse('node { name: "c" op: "NoOp" } node { name: "c_1" op: "NoOp" }')
    tf.import_graph_def(both, name="")
    tf.import_graph_def(both, name="")
    assert [op.name for op in graph.get_operations()] == ["C", "c", "c_1", "c_2", "c_1_1"]


def test_imported_names_are_taken_for_operations_made_later(graph: tf.Graph) -> None:
    tf.import_graph_def(sum_graph(), name="")
    assert tf.no_op(name="n").name == "n_1"


def test_a_trailing_slash_reenters_a_scope(graph: tf.Graph) -> None:
    tf.import_graph_def(sum_graph(), name="x/")
    tf.import_graph_def(sum_graph(), name="x/")
    assert graph.get_operations()[-1].name == "x/n_1"


# -- What comes back -------------------------------------------------------------------------


def test_return_elements_are_operations_and_tensors(graph: tf.Graph) -> None:
    operation, tensor, node = tf.import_graph_def(sum_graph(), return_elements=["c", "c:0", "n"])
    assert operation is graph.get_operation_by_name("import/c")
    assert tensor is operation.outputs[0]
    assert node.type == "NoOp"


def test_a_replaced_tensor_is_returned_as_its_replacement() -> None:
    mine = tf.constant([3.0, 4.0])
    tensor, operation = tf.import_graph_def(
        sum_graph(), input_map={"a:0": mine}, return_elements=["a:0", "a"]
    )
    assert tensor is mine
    assert operation.name == "import/a"


@pytest.mark.parametrize(
    ("names", "kind", "message"),
    [
        (["zz"], ValueError, "Requested return node 'zz' not found in graph def"),
        (["zz:0"], ValueError, "Requested return tensor 'zz:0' not found in graph def"),
        (["c:3"], ValueError, "Invalid return output 3 of node 'c', which has 1 output(s)"),
        ([7], TypeError, "must be a list of strings"),
        (["c:x"], ValueError, "Cannot convert 'c:x' to a tensor name"),
        (["a:0:0"], ValueError, "Cannot convert 'a:0:0' to a tensor name"),
    ],
)
def test_a_bad_return_element_is_refused(names: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind) as caught:
        tf.import_graph_def(sum_graph(), return_elements=names)
    assert message in str(caught.value)


# -- Replaced inputs -------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["a", "a:0"])
def test_an_input_is_replaced_by_a_tensor(graph: tf.Graph, key: str) -> None:
    mine = tf.constant([3.0, 4.0], name="mine")
    (total,) = tf.import_graph_def(sum_graph(), input_map={key: mine}, return_elements=["c:0"])
    assert [t.name for t in total.op.inputs] == ["mine:0", "import/b:0"]
    with tf.Session() as session:
        assert session.run(total).tolist() == [4.0, 6.0]


def test_a_value_is_made_a_constant_under_the_prefix(graph: tf.Graph) -> None:
    tf.import_graph_def(sum_graph(), input_map={"a": [3.0, 4.0]})
    assert graph.get_operation_by_name("import/c").inputs[0].name == "import/_inputs/Const:0"


def test_a_value_needs_a_prefix_to_be_put_under() -> None:
    with pytest.raises(ValueError, match="requires a non-empty `name`"):
        tf.import_graph_def(sum_graph(), name="", input_map={"a": [3.0, 4.0]})


def test_a_control_input_is_replaced(graph: tf.Graph) -> None:
    other = tf.constant(1, name="other")
    tf.import_graph_def(sum_graph(), input_map={"^c": other})
    assert graph.get_operation_by_name("import/n").control_inputs == [other.op]


def test_a_key_that_names_nothing_is_an_error_and_an_unused_one_is_not(graph: tf.Graph) -> None:
    mine = tf.constant([1.0, 2.0])
    tf.import_graph_def(sum_graph(), input_map={"c": mine})
    with pytest.raises(ValueError) as caught:
        tf.import_graph_def(sum_graph(), input_map={"a": mine, "q": mine, "a:2": mine})
    assert str(caught.value) == (
        "Attempted to map inputs that were not found in graph_def: [q:0, a:2]"
    )


@pytest.mark.parametrize(
    ("input_map", "kind", "message"),
    [
        ([1], TypeError, "Argument `input_map` must be a dictionary. Obtained list"),
        ({1: 2.0}, TypeError, "All keys for argument `input_map` must be strings"),
    ],
)
def test_an_input_map_of_the_wrong_type_is_refused(input_map: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind) as caught:
        tf.import_graph_def(sum_graph(), input_map=input_map)
    assert message in str(caught.value)


def test_an_operation_cannot_replace_an_input() -> None:
    with pytest.raises(TypeError, match="can't convert Operation 'x' to Tensor"):
        tf.import_graph_def(sum_graph(), input_map={"^c": tf.no_op(name="x")})


def test_a_tensor_of_another_graph_cannot_replace_an_input() -> None:
    with tf.Graph().as_default():
        foreign = tf.constant([1.0, 2.0], name="foreign")
    with pytest.raises(ValueError, match="node 'foreign' in input_map does not exist in graph"):
        tf.import_graph_def(sum_graph(), input_map={"a": foreign})


def test_a_replacement_of_the_wrong_type_is_refused() -> None:
    with pytest.raises(ValueError) as caught:
        tf.import_graph_def(sum_graph(), input_map={"a": tf.constant([3, 4])})
    assert str(caught.value) == (
        "Input 0 of node import/c was passed int32 from Const:0 incompatible with expected float."
    )


def test_a_replacement_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="Dimensions must be equal, but are 3 and 2"):
        tf.import_graph_def(sum_graph(), input_map={"a": tf.constant([3.0, 4.0, 5.0])})


def test_a_replaced_input_need_not_be_in_the_message() -> None:
    part = parse(f'node {{ name: "a" op: "Neg" input: "$elsewhere" {FLOAT} }}')
    (result,) = tf.import_graph_def(
        part, input_map={"$elsewhere": tf.constant(2.0)}, return_elements=["a:0"]
    )
    with tf.Session() as session:
        assert session.run(result) == -2.0


# -- Malformed graphs ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f'node {{ name: "a" op: "Neg" input: "q" {FLOAT} }}', "Node 'a': Unknown input node 'q'"),
        ('node { name: "a" op: "NoOp" input: "^q" }', "Node 'a': Unknown input node '^q'"),
        (f'node {{ name: "a" op: "Neg" input: "c:" {FLOAT} }}', "Unknown input node 'c:'"),
        (f'node {{ name: "a" op: "Neg" input: "" {FLOAT} }}', "Unknown input node ''"),
        (
            f'node {{ name: "c" op: "Const" {CONST} }} '
            f'node {{ name: "a" op: "Neg" input: "c:1" {FLOAT} }}',
            "Node 'a': Connecting to invalid output 1 of source node c which has 1 outputs.",
        ),
        (
            f'node {{ name: "c" op: "Neg" input: "a" {FLOAT} }} '
            f'node {{ name: "a" op: "Neg" input: "c" {FLOAT} }}',
            "2 nodes in a cycle",
        ),
        (
            'node { name: "c" op: "NoOp" } node { name: "c" op: "NoOp" }',
            "Node 'c' is not unique",
        ),
        ('node { name: "c d" op: "NoOp" }', "Node 'c d': Node name contains invalid characters"),
        ('node { name: "_c" op: "NoOp" }', "Node '_c': Node name contains invalid characters"),
        (
            f'node {{ name: "c" op: "Const" {CONST} }} '
            f'node {{ name: "a" op: "Neg" input: "^c" input: "c" {FLOAT} }}',
            "Node 'a': Control dependencies must come after regular dependencies",
        ),
        (
            f'node {{ name: "a" op: "Neg" {FLOAT} }}',
            "NodeDef expected inputs 'float' do not match 0 inputs specified",
        ),
        (
            f'node {{ name: "c" op: "Const" {CONST} }} '
            'node { name: "a" op: "Neg" input: "c" attr { key: "T" value { type: DT_INT32 } } }',
            "Input 0 of node import/a was passed float from import/c:0 incompatible with expected "
            "int32.",
        ),
        (
            f'node {{ name: "c" op: "Const" {CONST} }} node {{ name: "a" op: "Neg" input: "c" }}',
            "NodeDef missing attr 'T' from Op<name=Neg",
        ),
        (
            f'node {{ name: "c" op: "Const" {CONST} }} '
            'node { name: "a" op: "Neg" input: "c" attr { key: "T" value { i: 1 } } }',
            "AttrValue had value with type 'int' when 'type' expected\n\t for attr 'T'",
        ),
        (
            'node { name: "c" op: "Placeholder" attr { key: "dtype" value { type: DT_STRING } } } '
            'node { name: "a" op: "Neg" input: "c" attr { key: "T" value { type: DT_STRING } } }',
            "Value for attr 'T' of string is not in the list of allowed values: ",
        ),
        (
            'node { name: "d" op: "NoOp" attr { key: "_class" value { list { s: "loc:@c" } } } }',
            "Node 'd' expects to be colocated with unknown node 'c'",
        ),
        (
            f'node {{ name: "c" op: "Const" {CONST} '
            'attr { key: "_output_shapes" value { list { shape { dim { size: 3 } } } } } }',
            "Node 'import/c' has an _output_shapes attribute inconsistent with the GraphDef for "
            "output #0: Shapes must be equal rank, but are 0 and 1",
        ),
        ("versions { min_consumer: 9999 }", "GraphDef min consumer version 9999 above current"),
    ],
)
def test_a_malformed_graph_is_refused_and_leaves_no_trace(
    graph: tf.Graph, text: str, message: str
) -> None:
    before = tf.constant(1.0, name="before")
    versions = str(graph.graph_def_versions)
    with pytest.raises(ValueError) as caught:
        tf.import_graph_def(parse(text))
    assert message in str(caught.value)
    assert graph.get_operations() == [before.op]
    assert str(graph.graph_def_versions) == versions
    assert tf.no_op(name="import/c").name == "import/c"


def test_an_import_that_fails_late_takes_its_edges_back(graph: tf.Graph) -> None:
    mine = tf.constant([1.0, 2.0])
    with pytest.raises(ValueError, match="not found in graph def"):
        tf.import_graph_def(sum_graph(), input_map={"a": mine}, return_elements=["zz"])
    assert mine.consumers() == []


def test_an_unknown_op_type_is_named() -> None:
    with pytest.raises(tf.errors.NotFoundError, match="Op type not registered 'Foo'"):
        tf.import_graph_def(parse('node { name: "a" op: "Foo" }'))


@pytest.mark.parametrize("value", [7, "text", op_def_pb2.OpDef()])
def test_only_a_graph_def_can_be_imported(value: Any) -> None:
    with pytest.raises(TypeError, match="Argument `graph_def` must be a GraphDef proto."):
        tf.import_graph_def(value)


def test_a_finalized_graph_takes_no_import(graph: tf.Graph) -> None:
    graph.finalize()
    with pytest.raises(RuntimeError, match="Graph is finalized and cannot be modified."):
        tf.import_graph_def(graph_pb2.GraphDef())


# -- Attributes ------------------------------------------------------------------------------


def test_missing_attributes_get_their_defaults(graph: tf.Graph) -> None:
    tf.import_graph_def(parse(f'node {{ name: "c" op: "Placeholder" {FED} }}'))
    assert graph.get_operation_by_name("import/c").get_attr("shape").ndims is None


def test_attributes_that_are_not_in_the_signature_are_kept(graph: tf.Graph) -> None:
    text = (
        'node { name: "c" op: "NoOp" attr { key: "_mine" value { i: 3 } } '
        'attr { key: "future" value { b: true } } }'
    )
    tf.import_graph_def(parse(text), name="")
    (node,) = graph.as_graph_def().node
    assert node == parse(text).node[0]


def test_a_new_attribute_with_the_producers_default_is_dropped(graph: tf.Graph) -> None:
    producer = text_format.Parse(
        'op { name: "NoOp" attr { name: "x" type: "int" default_value { i: 3 } } '
        'attr { name: "y" type: "int" default_value { i: 3 } } }',
        op_def_pb2.OpList(),
    )
    text = (
        'node { name: "c" op: "NoOp" attr { key: "x" value { i: 3 } } '
        'attr { key: "y" value { i: 4 } } }'
    )
    tf.import_graph_def(parse(text), producer_op_list=producer)
    assert set(graph.get_operations()[0].node_def.attr) == {"y"}


def test_stated_output_shapes_refine_what_is_inferred_and_are_not_kept(graph: tf.Graph) -> None:
    shapes = 'attr { key: "_output_shapes" value { list { shape { dim { size: 3 } } } } }'
    tf.import_graph_def(parse(f'node {{ name: "c" op: "Placeholder" {FED} {shapes} }}'))
    (op,) = graph.get_operations()
    assert op.outputs[0].shape.as_list() == [3]
    assert "_output_shapes" not in op.node_def.attr


def test_versions_are_those_that_readers_of_both_graphs_need(graph: tf.Graph) -> None:
    tf.import_graph_def(parse("versions { producer: 21 min_consumer: 3 bad_consumers: 5 }"))
    versions = graph.as_graph_def().versions
    assert (versions.producer, versions.min_consumer, list(versions.bad_consumers)) == (21, 3, [5])


# -- Scopes around the import ----------------------------------------------------------------


def test_devices_merge_with_the_scopes_around(graph: tf.Graph) -> None:
    text = (
        'node { name: "c" op: "NoOp" device: "/cpu:0" } node { name: "d" op: "NoOp" } '
        'node { name: "e" op: "NoOp" device: "/job:x" }'
    )
    with tf.device("/job:ps/gpu:0"):
        tf.import_graph_def(parse(text), name="s")
    with tf.device(lambda op: "/job:fn" if op.name.endswith("d") else "/job:gn"):
        tf.import_graph_def(parse(text), name="f")
    assert {op.name: op.device for op in graph.get_operations()} == {
        "s/c": "/job:ps/device:CPU:0",
        "s/d": "/job:ps/device:GPU:0",
        "s/e": "/job:x/device:GPU:0",
        "f/c": "/job:gn",
        "f/d": "/job:fn",
        "f/e": "/job:gn",
    }


def test_colocation_is_renamed_and_shares_the_device(graph: tf.Graph) -> None:
    text = (
        'node { name: "d" op: "NoOp" attr { key: "_class" value { list { s: "loc:@c" } } } } '
        'node { name: "c" op: "NoOp" device: "/job:a" }'
    )
    with tf.device("/cpu:1"):
        tf.import_graph_def(parse(text))
    follower = graph.get_operation_by_name("import/d")
    assert follower.colocation_groups() == [b"loc:@import/c"]
    assert follower.device == "/job:a/device:CPU:1"


def test_colocation_follows_a_node_that_was_renamed(graph: tf.Graph) -> None:
    tf.no_op(name="c")
    text = (
        'node { name: "d" op: "NoOp" attr { key: "_class" value { list { s: "loc:@c" } } } } '
        'node { name: "c" op: "NoOp" }'
    )
    tf.import_graph_def(parse(text), name="")
    assert graph.get_operation_by_name("d").colocation_groups() == [b"loc:@c_1"]


def test_control_dependencies_around_apply_to_every_node(graph: tf.Graph) -> None:
    with tf.control_dependencies([tf.no_op(name="x")]):
        tf.import_graph_def(sum_graph())
    assert [controls for _, _, controls in layout(graph)[1:]] == [
        ["x"], ["x"], ["x"], ["import/c", "x"],
    ]  # fmt: skip


# -- Whole graphs ----------------------------------------------------------------------------


def test_nodes_may_come_in_any_order(graph: tf.Graph) -> None:
    reader = f'node {{ name: "a" op: "Neg" input: "c" {FLOAT} }}'
    maker = f'node {{ name: "c" op: "Const" {CONST} }}'
    tf.import_graph_def(parse(f"{reader} {maker}"))
    assert [op.name for op in graph.get_operations()] == ["import/c", "import/a"]


def test_a_graph_comes_out_as_it_went_in(graph: tf.Graph) -> None:
    with tf.Graph().as_default() as source:
        x = tf.placeholder(tf.float32, [None, 3], name="x")
        with tf.device("/job:ps/task:1"):
            w = tf.constant([[1.0], [2.0], [3.0]], name="w")
        with tf.name_scope("layer"), source.colocate_with(w.op):
            y = tf.multiply(x, 2.0)
        with tf.control_dependencies([y]):
            tf.group(tf.identity(w), name="done")
        tf.constant([b"a", b"\xff"], name="words")
        tf.constant(3, tf.int64)
    before = source.as_graph_def()
    tf.import_graph_def(before, name="")
    assert graph.as_graph_def() == before
    assert graph.as_graph_def(add_shapes=True) == source.as_graph_def(add_shapes=True)


def loop_of_version_1() -> graph_pb2.GraphDef:
    """i (fed) counted up to 10 by Enter, Merge, Switch and NextIteration, readers first."""
    message = graph_pb2.GraphDef()

    def node(name: str, op: str, inputs: str = "", **attrs: Any) -> None:
        made = message.node.add(name=name, op=op, input=inputs.split())
        for key, value in attrs.items():
            if isinstance(value, bytes):
                made.attr[key].s = value
            elif isinstance(value, bool):
                made.attr[key].b = value
            elif key == "N":
                made.attr[key].i = value
            elif key == "value":
                made.attr[key].tensor.dtype = 3
                made.attr[key].tensor.tensor_shape.SetInParent()
                made.attr[key].tensor.int_val.append(value)
            else:
                made.attr[key].type = value

    frame = {"frame_name": b"loop", "is_constant": False}
    node("out", "Identity", "w/Exit", T=3)
    node("w/Exit", "Exit", "w/Switch", T=3)
    node("w/NextIteration", "NextIteration", "w/add", T=3)
    node("w/add", "AddV2", "w/Identity w/one", T=3)
    node("w/one", "Const", "^w/Identity", dtype=3, value=1)
    node("w/Identity", "Identity", "w/Switch:1", T=3)
    node("w/Switch", "Switch", "w/Merge w/LoopCond", T=3)
    node("w/LoopCond", "LoopCond", "w/Less")
    node("w/Less", "Less", "w/Merge w/ten", T=3)
    node("w/ten", "Const", "^w/Merge", dtype=3, value=10)
    node("w/Merge", "Merge", "w/Enter w/NextIteration", T=3, N=2)
    node("w/Enter", "Enter", "i", T=3, **frame)
    node("i", "Placeholder", dtype=3)
    return message


def test_a_loop_of_version_1_is_the_only_cycle_that_there_may_be(graph: tf.Graph) -> None:
    tf.import_graph_def(loop_of_version_1(), name="x")
    merge = graph.get_operation_by_name("x/w/Merge")
    assert [t.name for t in merge.inputs] == ["x/w/Enter:0", "x/w/NextIteration:0"]
    assert graph.get_tensor_by_name("x/w/NextIteration:0").consumers() == [merge]
    assert graph.get_tensor_by_name("x/w/Enter:0").consumers() == [merge]
    assert merge.outputs[0].shape.ndims is None, "an iteration may change the shape"
    with tf.Session() as session:
        assert session.run("x/out:0", {"x/i:0": 3}) == 10
        assert session.run("x/out:0", {"x/i:0": 12}) == 12
    by_name = {node.name: node for node in graph.as_graph_def().node}
    for node in loop_of_version_1().node:
        found = by_name[f"x/{node.name}"]
        assert found.op == node.op and len(found.input) == len(node.input)


def test_a_loop_of_version_1_comes_out_as_it_went_in(graph: tf.Graph) -> None:
    tf.import_graph_def(loop_of_version_1(), name="")
    once = graph.as_graph_def()
    with tf.Graph().as_default() as again:
        tf.import_graph_def(once, name="")
        assert again.as_graph_def() == once


def test_a_loop_of_version_1_can_be_entered_with_another_value(graph: tf.Graph) -> None:
    (out,) = tf.import_graph_def(
        loop_of_version_1(), input_map={"i": tf.constant(7)}, return_elements=["out:0"]
    )
    with tf.Session() as session:
        assert session.run(out) == 10


def test_a_loop_with_a_conditional_comes_out_as_it_went_in_and_runs(graph: tf.Graph) -> None:
    with tf.Graph().as_default() as source:
        i = tf.placeholder(tf.int32, [], name="i")
        step = tf.placeholder(tf.float32, [2], name="step")

        def body(i: Any, x: Any) -> Any:
            return i + 1, tf.cond(i < 3, lambda: x + step, lambda: x - step)

        _, x = tf.while_loop(lambda i, x: i < 5, body, [i, tf.zeros([2])], name="loop")
        tf.identity(x, name="out")
    before = source.as_graph_def()
    tf.import_graph_def(before, name="")
    assert graph.as_graph_def() == before
    with tf.Session() as session:
        assert session.run("out:0", {"i:0": 0, "step:0": [1, 10]}).tolist() == [1.0, 10.0]


def test_an_argument_and_a_node_of_a_body_may_want_the_same_name(graph: tf.Graph) -> None:
    with tf.Graph().as_default() as source:
        start = tf.placeholder(tf.float32, [], name="cond")  # In the body: argument cond_1, ...

        def body(i: Any, x: Any) -> Any:
            return i + 1, tf.cond(i > 1, lambda: x * 2.0, lambda: x + 1.0)  # ... and node cond_1.

        tf.identity(tf.while_loop(lambda i, x: i < 3, body, [0, start])[1], name="out")
    before = source.as_graph_def()
    tf.import_graph_def(before, name="")
    assert graph.as_graph_def() == before
    with tf.Session() as session:
        assert session.run("out:0", {"cond:0": 1.0}) == 6.0


def test_functions_may_be_imported_twice(graph: tf.Graph) -> None:
    with tf.Graph().as_default() as source:
        p = tf.placeholder(tf.bool, [], name="p")
        tf.identity(tf.cond(p, lambda: tf.constant(1), lambda: tf.constant(2)), name="out")
    before = source.as_graph_def()
    tf.import_graph_def(before, name="x")
    tf.import_graph_def(before, name="y")
    assert len(graph.as_graph_def().library.function) == len(before.library.function)
    with tf.Session() as session:
        assert session.run(["x/out:0", "y/out:0"], {"x/p:0": True, "y/p:0": False}) == [1, 2]


def test_another_function_of_the_same_name_is_refused(graph: tf.Graph) -> None:
    def branches(value: int) -> graph_pb2.GraphDef:
        with tf.Graph().as_default() as source:
            p = tf.placeholder(tf.bool, [], name="p")
            tf.cond(p, lambda: tf.constant(value), lambda: tf.constant(2))
        return source.as_graph_def()

    tf.import_graph_def(branches(1))
    with pytest.raises(ValueError, match="a different function with the same name already exists"):
        tf.import_graph_def(branches(5))


def test_gradients_of_branches_and_loops_are_exported_with_their_functions(graph: tf.Graph) -> None:
    x = tf.placeholder_with_default([1.0, 2.0], [2], name="x")
    branch = tf.cond(tf.reduce_sum(x) > 2.0, lambda: x * x, lambda: x)
    loop = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), [0, x])[1]
    (first,) = tf.gradients(branch, x)
    (second,) = tf.gradients(tf.gradients(branch, x), x)
    (of_loop,) = tf.gradients(loop, x)
    names = [tensor.name for tensor in (first, second, of_loop)]
    with tf.Session() as session:
        wanted = session.run([first, second, of_loop])
    message = graph.as_graph_def()
    with tf.Graph().as_default():
        copies = tf.import_graph_def(message, return_elements=names, name="copy")
        with tf.Session() as session:
            found = session.run(copies)
    np.testing.assert_allclose(found, wanted)
    np.testing.assert_allclose(wanted, [[2, 4], [2, 2], [4, 32]])


def nested_functions(depth: int) -> Any:
    """`f0` negates; each other function calls the one before it by name, as old clients do."""
    message = tf.GraphDef()
    for i in range(depth):
        made = message.library.function.add()
        made.signature.name = f"f{i}"
        made.signature.input_arg.add(name="x", type=1)
        made.signature.output_arg.add(name="y", type=1)
        node = made.node_def.add(name="c", op=f"f{i - 1}" if i else "Neg", input=["x"])
        if not i:
            node.attr["T"].type = 1
        made.ret["y"] = "c:y:0"
    constant = message.node.add(name="c", op="Const")
    constant.attr["dtype"].type = 1
    constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(1.5))
    message.node.add(name="r", op=f"f{depth - 1}", input=["c"])
    return message


@pytest.mark.parametrize("depth", [1, 2, 20])
def test_functions_call_functions_and_their_results_by_name(graph: tf.Graph, depth: int) -> None:
    tf.import_graph_def(nested_functions(depth), name="")
    with tf.Session(graph=graph) as session:
        assert session.run("r:0") == -1.5


def test_a_function_whose_result_nothing_makes_is_refused(graph: tf.Graph) -> None:
    message = nested_functions(1)
    message.library.function[0].ret["y"] = "nothing:y:0"
    with pytest.raises(tf.errors.InvalidArgumentError, match="'nothing:y:0', which nothing makes"):
        tf.import_graph_def(message, name="")


def test_a_loop_whose_body_is_the_loop_is_refused(graph: tf.Graph) -> None:
    message = nested_functions(1)
    body = message.library.function[0]
    for node in (body.node_def[0], message.node[1]):
        node.op = "While"
        node.attr["cond"].func.name = node.attr["body"].func.name = "f0"
        node.attr["T"].list.type.append(1)
    body.ret["y"] = "c:output:0"
    tf.import_graph_def(message, name="")
    refused = pytest.raises(tf.errors.InvalidArgumentError, match="it may call itself")
    with tf.Session(graph=graph) as session, refused:
        session.run("r:0")
