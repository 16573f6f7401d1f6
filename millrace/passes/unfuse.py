"""Nodes into which TensorFlow's optimizer has put several: taken apart again.

A master of TensorFlow optimizes a graph before it cuts it. XLA fuses by itself, so the plain nodes
are all that is needed here. Messages in, messages out; what is not known stays as it is.
"""

from __future__ import annotations

from tensorboard.compat.proto import attr_value_pb2, graph_pb2, node_def_pb2

from millrace.core import dtypes

#: What a fused node does first, and the attributes that only the whole has.
_FIRST = {"_FusedMatMul": "MatMul", "_FusedConv2D": "Conv2D"}
_OF_THE_WHOLE = (
    "num_args",
    "num_host_args",
    "TArgs",
    "fused_ops",
    "epsilon",
    "leakyrelu_alpha",
    "filter_format",
)
_ACTIVATIONS = frozenset(("Relu", "Relu6", "Elu", "LeakyRelu", "Tanh", "Sigmoid"))
#: How many more inputs each of the others takes.
_TAKES = {"BiasAdd": 1, "Add": 1, "FusedBatchNorm": 4}


def unfuse(message: graph_pb2.GraphDef) -> graph_pb2.GraphDef:
    """The graph with plain nodes; the same message if there is nothing to do."""
    if not any(_parts(node) for node in message.node):
        return message
    plain = graph_pb2.GraphDef(library=message.library, versions=message.versions)
    taken = {node.name for node in message.node}
    for node in message.node:
        parts = _parts(node)
        if parts:
            _take_apart(node, parts, taken, plain)
        else:
            plain.node.add().CopyFrom(node)
    return plain


def _parts(node: node_def_pb2.NodeDef) -> list[str]:
    """The op types that make up a fused node, or nothing if it is none."""
    if node.op == "_UnaryOpsComposition":
        return [name.decode() for name in node.attr["op_names"].list.s]
    if node.op not in _FIRST:
        return []
    more = [name.decode() for name in node.attr["fused_ops"].list.s]
    if any(name not in _ACTIVATIONS and name not in _TAKES for name in more):
        return []
    return [_FIRST[node.op], *more]


def _take_apart(
    node: node_def_pb2.NodeDef, parts: list[str], taken: set[str], plain: graph_pb2.GraphDef
) -> None:
    inputs = [text for text in node.input if not text.startswith("^")]
    controls = [text for text in node.input if text.startswith("^")]
    value = ""
    for i, part in enumerate(parts):
        made = plain.node.add(op=part, device=node.device)
        if i == len(parts) - 1:
            made.name = node.name
        else:
            made.name = f"{node.name}/part_{i}"
            while made.name in taken:
                made.name += "_"
            taken.add(made.name)
        if i == 0:
            count = 2 if node.op in _FIRST else 1
            made.input.extend(inputs[:count])
            del inputs[:count]
        else:
            count = _TAKES.get(part, 0)
            made.input.extend([value, *inputs[:count]])
            del inputs[:count]
        made.input.extend(controls if i == 0 else [])
        _set_attributes(made, node, is_first=i == 0)
        value = made.name


def _set_attributes(
    made: node_def_pb2.NodeDef, whole: node_def_pb2.NodeDef, is_first: bool
) -> None:
    made.attr["T"].CopyFrom(whole.attr["T"])
    if whole.op in _FIRST and is_first:
        for name, value in whole.attr.items():
            if name not in _OF_THE_WHOLE:
                made.attr[name].CopyFrom(value)
    if made.op == "LeakyRelu":
        made.attr["alpha"].CopyFrom(whole.attr["leakyrelu_alpha"])
    if made.op in ("BiasAdd", "FusedBatchNorm") and "data_format" in whole.attr:
        made.attr["data_format"].CopyFrom(whole.attr["data_format"])
    if made.op == "FusedBatchNorm":
        made.op = "FusedBatchNormV3"
        made.attr["U"].type = dtypes.float32.as_datatype_enum
        made.attr["epsilon"].CopyFrom(whole.attr["epsilon"])
        made.attr["is_training"].CopyFrom(attr_value_pb2.AttrValue(b=False))
    if made.op == "Add":
        made.op = "AddV2"
