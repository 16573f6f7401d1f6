"""Keys of TensorFlow's transfers, and its fused nodes."""

import millrace as tf
from millrace.graph import registry
from millrace.passes.node import Node
from millrace.passes.rendezvous import inner_frame, key_of
from millrace.passes.unfuse import unfuse


def test_a_key_names_both_ends_the_tensor_and_the_iteration():
    node = Node(
        "r",
        registry.lookup("_Recv"),
        {
            "tensor_type": tf.float32,
            "tensor_name": b"edge_4_x",
            "send_device": b"/job:a/replica:0/task:0/device:CPU:0",
            "send_device_incarnation": -1,
            "recv_device": b"/job:b/replica:0/task:0/device:CPU:0",
            "client_terminated": False,
        },
    )
    assert key_of(node, 12, 3) == (
        "/job:a/replica:0/task:0/device:CPU:0;ffffffffffffffff;"
        "/job:b/replica:0/task:0/device:CPU:0;edge_4_x;12:3"
    )


def test_a_frame_has_the_number_that_tensorflow_gives_it():
    """As a worker of TensorFlow 2.21 asked for it, in the gradient of a loop."""
    assert inner_frame(0, 0, b"gradients/while/while_context") == 10388688899864807138


def fused(op, parts, inputs, **attrs):
    graph = tf.GraphDef()
    node = graph.node.add(name="y", op=op, input=inputs)
    node.attr["T"].type = tf.float32.as_datatype_enum
    for part in parts:
        node.attr["fused_ops" if op != "_UnaryOpsComposition" else "op_names"].list.s.append(
            part.encode()
        )
    for name, value in attrs.items():
        node.attr[name].CopyFrom(value)
    return [(n.name, n.op, list(n.input)) for n in unfuse(graph).node], unfuse(graph)


def test_a_fused_product_is_taken_apart():
    found, graph = fused(
        "_FusedMatMul",
        ["BiasAdd", "LeakyRelu"],
        ["a", "b", "bias", "^c"],
        leakyrelu_alpha=tf.AttrValue(f=0.5),
        transpose_b=tf.AttrValue(b=True),
        num_args=tf.AttrValue(i=1),
    )
    assert found == [
        ("y/part_0", "MatMul", ["a", "b", "^c"]),
        ("y/part_1", "BiasAdd", ["y/part_0", "bias"]),
        ("y", "LeakyRelu", ["y/part_1"]),
    ]
    assert graph.node[0].attr["transpose_b"].b and "num_args" not in graph.node[0].attr
    assert graph.node[2].attr["alpha"].f == 0.5


def test_a_chain_of_activations_is_taken_apart():
    found, _ = fused("_UnaryOpsComposition", ["Tanh", "Relu"], ["x"])
    assert found == [("y/part_0", "Tanh", ["x"]), ("y", "Relu", ["y/part_0"])]


def test_what_is_not_known_stays_as_it_is():
    found, _ = fused("_FusedMatMul", ["BiasAdd", "GeluExact"], ["a", "b", "bias"])
    assert found == [("y", "_FusedMatMul", ["a", "b", "bias"])]
