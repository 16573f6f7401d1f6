"""Which task has a row: TensorFlow's two ways to spread ids, found in the graph.

`embedding_lookup` works out the part and the row in it of every id by a dozen ops (`div`: the
first ids are in the first part; `mod`: they go round). Where the rows go to other tasks, ids are
sorted anyway (`_RouteRows`), and then parts and rows of all of them follow from a few borders:
the dozen ops need not run. This pass finds them by their form, in any graph.
"""

from __future__ import annotations

from millrace.graph import registry
from millrace.passes.node import Edge, Program
from millrace.passes.unneeded import drop_unneeded


def route_ids(program: Program) -> Program:
    """Lets routes take ids as they come, where their parts and rows follow from them."""
    if not any(node.type == "_RouteRows" for node in program.nodes):
        return program
    program = program.copy()
    for node in program.nodes:
        if node.type == "_RouteRows" and node.attrs["merge"]:
            rows, parts = node.inputs
            count = node.attrs["num_partitions"]
            found = _mod(rows, parts, count) or _div(rows, parts, count)
            if found is not None and found[0].dtype.base_dtype == rows.dtype.base_dtype:
                ids, total = found
                node.inputs = [ids]
                node.attrs = {**node.attrs, "num_ids": total}
                node.definition = registry.lookup("_RouteIds")
                node.form = None
    return drop_unneeded(program)


def _mod(rows: Edge, parts: Edge, count: int) -> tuple[Edge, int] | None:
    """The ids, if id % count is the part and id // count the row in it; their number is 0."""
    x = _flat(_operand(rows, "FloorDiv", count))
    return (
        (x, 0)
        if x is not None and x == _flat(_operand(_uncast(parts), "FloorMod", count))
        else None
    )


def _div(rows: Edge, parts: Edge, count: int) -> tuple[Edge, int] | None:
    """The ids and how many there are, if each part has as many that follow each other."""
    part = _uncast(parts)
    if part.node.type != "Maximum" or rows.node.type not in ("Select", "SelectV2"):
        return None
    long, short = part.node.inputs
    each, more = _number(_input(short, 1)), _number(_input(long, 1))
    test, row_long, row_short = rows.node.inputs
    extras = _number(_input(test, 1))
    if each is None or extras is None or more != each + 1 or not 0 <= extras < count or each < 1:
        return None
    if test.node.type != "Less" or test.node.inputs[0] != part:
        return None
    xs = {
        _operand(long, "FloorDiv", more),
        _operand(_operand(short, "FloorDiv", each), "Sub", extras),
        _operand(row_long, "FloorMod", more),
        _operand(_operand(row_short, "FloorMod", each), "Sub", extras),
    }
    (x,) = xs if len(xs) == 1 else (None,)
    flat = _flat(x)
    return None if flat is None else (flat, each * count + extras)


def _operand(edge: Edge | None, op_type: str, number: int) -> Edge | None:
    """What an op applies a constant to; None if it is another op or constant."""
    if edge is None or edge.node.type != op_type or edge.node.controls:
        return None
    return edge.node.inputs[0] if _number(edge.node.inputs[1]) == number else None


def _input(edge: Edge, i: int) -> Edge | None:
    return edge.node.inputs[i] if i < len(edge.node.inputs) else None


def _uncast(edge: Edge) -> Edge:
    return edge.node.inputs[0] if edge.node.type == "Cast" and not edge.node.controls else edge


def _flat(edge: Edge | None) -> Edge | None:
    """The ids before they were made a vector: the op that sorts them does that."""
    if edge is None or edge.dtype.base_dtype.name not in ("int32", "int64"):
        return None
    node = edge.node
    if node.type == "Reshape" and not node.controls and _number(node.inputs[1]) == -1:
        return node.inputs[0]
    source = node.source
    shape = source.outputs[edge.index].shape if source is not None else None
    return edge if shape is not None and shape.ndims == 1 else None


def _number(edge: Edge | None) -> int | None:
    """The value of one integer that is known before anything runs."""
    if edge is None:
        return None
    node = edge.node
    if node.type == "Const":
        value = node.attrs["value"]
        return int(value.reshape(-1)[0]) if value.size == 1 and value.dtype.kind == "i" else None
    if node.type in ("Cast", "Identity"):
        return _number(node.inputs[0])
    if node.type in ("Add", "AddV2", "FloorDiv", "FloorMod"):
        left, right = map(_number, node.inputs)
        if left is None or right is None or (node.type.startswith("Floor") and right <= 0):
            return None
        if node.type == "FloorDiv":
            return left // right
        return left % right if node.type == "FloorMod" else left + right
    return None
