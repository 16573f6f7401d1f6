"""Fixed lengths for rows that are picked by data, where nobody can tell the difference.

An optimizer adds up the gradients of rows that occur several times (Unique,
UnsortedSegmentSum) and updates those rows; a table in several parts is looked up part by part
(DynamicPartition, Gather, DynamicStitch). How many rows there are depends on data, so these
are host ops, as is what hands out the rows of several workers' gradients. They cut a training
step into several XLA calls, and what follows them would be compiled for every new number. But
an update may as well be given padding that it drops. This pass finds the ops whose outputs all
end in positions that leave padding out (`padded_values.py`), and replaces them by those of
`ops/cluster/padded_unique.py`, or by those of `route_rows.py` where rows go to other tasks.

Values that anybody sees (fetches, loops) are never padded, and the user's graph is not touched.
"""

from __future__ import annotations

from millrace.core.value import Attr
from millrace.graph import registry
from millrace.passes import route_rows
from millrace.passes.frames import is_ruled
from millrace.passes.node import Node, Program
from millrace.passes.padded_values import (
    APPLY,
    TAKE,
    Group,
    Kinds,
    follow,
    is_row_update,
    is_source,
    needs_zeros,
)
from millrace.passes.schedule import topological_order

#: Each part of a table is asked for every row, so more parts would be more work than they save.
MAX_PARTS = 8


def pad_unique(program: Program) -> Program:
    """Gives rows that are picked by data fixed lengths, where only what leaves padding out follows.

    Over a cluster, rows of a table that lies on several tasks are routed (`route_rows.py`).
    """
    if is_ruled(program) or not any(map(is_source, program.nodes)):
        return program
    program = program.copy()
    sources = {node for node in program.nodes if is_source(node)}
    ordered = topological_order(program.nodes)
    routes = route_rows.Routes()
    while sources:
        kinds, culprits = follow(ordered, sources, program.results)
        if not culprits:
            if program.setting.home:
                routes = route_rows.find(ordered, kinds, sources)
            culprits = {node for node in sources - routes.nodes if _has_many_parts(node)}
        if not culprits:
            break
        sources -= culprits
    if not sources:
        return program
    zeros = needs_zeros(ordered, kinds)
    for node in ordered:
        if not routes.replace(node, kinds):
            _replace(node, kinds, sources, zeros)
    return routes.finish(program)


def _has_many_parts(node: Node) -> bool:
    return bool(node.attrs.get("num_partitions", 0) > MAX_PARTS)


def _replace(node: Node, kinds: Kinds, sources: set[Node], zeros: set[Group]) -> None:
    if node in sources:
        if node.type == "Unique":
            attrs = {"padded": node.inputs[0] in kinds, "out_idx": node.attrs["out_idx"]}
            _become(node, "_PaddedUnique", {"T": node.attrs["T"], **attrs})
        elif node.type == TAKE:
            node.attrs = {**node.attrs, "_padded": True}
        else:
            _become(node, "_MaskedPartition", node.attrs)
        return
    if not any(edge in kinds for edge in node.inputs):
        return
    if node.type in ("DynamicStitch", "ParallelDynamicStitch"):
        _become(node, "_MaskedStitch", node.attrs)
    elif node.type in ("Gather", "GatherV2"):
        attrs = {"T": node.attrs["Tparams"], "Tindices": node.attrs["Tindices"]}
        index = kinds[node.inputs[1]]
        attrs |= {"in_place": index.in_place, "zeros": index.in_place and index.group in zeros}
        node.inputs = node.inputs[:2]
        _become(node, "_MaskedTake", attrs)
    elif node.type == "ResourceGather":
        attrs = {key: node.attrs[key] for key in ("dtype", "Tindices")}
        _become(node, "_MaskedResourceTake", attrs)
    elif node.type == "Cast":
        if kinds[node.inputs[0]].what == "index":
            _become(node, "_PaddedCast", {key: node.attrs[key] for key in ("SrcT", "DstT")})
    elif is_row_update(node) or node.type == APPLY:
        node.attrs = {**node.attrs, "_padded": True}


def _become(node: Node, op_type: str, attrs: dict[str, Attr]) -> None:
    node.definition = registry.lookup(op_type)
    node.attrs = dict(attrs)
