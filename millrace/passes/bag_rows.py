"""Bags: rows that are looked up only to be added up, several at a time.

A lookup of ids [n, k] whose rows are summed (or averaged) over k needs no row for each id: what
each task of the table sends can be added up as it arrives. And the gradient is the same for all k
ids of a bag: it need not be spread out before it is added up by row. This pass finds both where
rows go from task to task (`route_rows.py`) and replaces them by the ops of
`ops/cluster/routed_rows.py`: a tenth of the memory is touched.

Sums have the same terms. A bag's are added up part by part of the table, a row's in the order of
its occurrences, as before.
"""

from __future__ import annotations

import numpy as np

from millrace.core import dtypes
from millrace.core.value import Attr, Value
from millrace.graph import registry
from millrace.passes.node import Edge, Node, Program
from millrace.passes.unneeded import drop_unneeded

_ROUTES = ("_RouteRows", "_RouteIds")
_STITCH, _SUM = "_RoutedStitch", "_SumRouted"
#: They only need to know how many positions there are.
_BAGS = ("_BagOfRows", "_SumBags")
_TYPES = ("float32", "float64")


def bag_rows(program: Program) -> Program:
    """Adds rows up as they arrive from other tasks, where only their sums are wanted."""
    if not any(node.type in (_STITCH, _SUM) for node in program.nodes):
        return program
    return _Bags(program.copy()).run()


class _Bags:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._kept = {edge.node for edge in program.results} | set(program.targets)
        self._names = {node.name for node in program.nodes}
        self._made: list[Node] = []

    def run(self) -> Program:
        for node in list(self._program.nodes):
            if node.type == _SUM:
                self._join_gradient(node)
        self._clean_up()
        for node in list(self._program.nodes):
            if node.type == _STITCH:
                self._join_lookup(node)
        self._clean_up()
        for node in self._program.nodes:
            if node.type in _ROUTES:
                positions = Edge(node, node.attrs["num_partitions"])
                users = [n for n in self._program.nodes if positions in n.inputs]
                if all(n.type in _BAGS for n in users):
                    node.attrs = {**node.attrs, "placed": False}
        return self._program

    # -- Gradients -------------------------------------------------------------------------

    def _join_gradient(self, node: Node) -> None:
        """Sums of rows that were spread out from fewer."""
        values, positions = node.inputs[:2]
        flat = values.node
        if positions.node.type not in _ROUTES or flat.type != "Reshape" or node in self._kept:
            return
        spread = flat.inputs[0].node
        if spread.type != "BroadcastTo":
            return
        few, many = _sizes(spread.inputs[0]), _sizes(Edge(spread, 0))
        if not few or not many or len(few) != 3 or len(many) != 3:
            return
        rows = _sizes(values)
        if not rows or len(rows) != 2 or rows[1] is None or rows[1] != many[2]:
            return
        if few[1] != 1 or many[1] is None or many[1] < 2 or few[2] != many[2]:
            return
        if values.dtype.base_dtype.name not in _TYPES:
            return
        count = node.attrs["N"]
        attrs = {"T": values.dtype.base_dtype, "Tindices": node.attrs["Tindices"], "size": many[1]}
        controls = [*node.controls, *flat.controls, *spread.controls]
        sums = []
        for i in range(count):
            routed = [positions, *_routed(positions.node, count, i), node.inputs[2 + i]]
            inputs = [spread.inputs[0], *routed]
            sums.append(self._make(node, f"{node.name}/part_{i}", "_SumBags", attrs, inputs))
            sums[-1].controls = list(dict.fromkeys(controls))
        for user in self._program.nodes:
            own = [sums[e.index] for e in user.inputs if e.node is node]
            user.inputs = [Edge(sums[e.index], 0) if e.node is node else e for e in user.inputs]
            if node in user.controls:
                # Who has one part need not wait for the others: they do nothing but compute.
                others = [c for c in user.controls if c is not node]
                user.controls = others if own else [*others, *sums]
        for user in self._program.nodes:
            if user.type == "Identity" and not user.controls and user not in self._kept:
                source = user.inputs[0]
                if source.node in sums:
                    self._redirect(Edge(user, 0), source)

    # -- Lookups ---------------------------------------------------------------------------

    def _join_lookup(self, node: Node) -> None:
        """Rows that are put in order only to be added up."""
        positions, *parts = node.inputs
        rows = _sizes(Edge(node, 0))
        if positions.node.type not in _ROUTES or node in self._kept or not rows or len(rows) != 2:
            return
        sums: list[tuple[Node, Node, int]] = []
        asked: list[tuple[Node, Node]] = []
        for shaped in self._users(node):
            sizes = _sizes(Edge(shaped, 0))
            if (
                shaped.type != "Reshape"
                or shaped.inputs[0].node is not node
                or shaped.inputs[1].node is node
                or node in shaped.controls
                or shaped in self._kept
                or not sizes
                or len(sizes) != 3
                or sizes[1] is None
                or sizes[1] < 2
                or sizes[2] is None
                or sizes[2] != rows[1]
            ):
                return
            for total in self._users(shaped):
                if _adds_up_bags(total, shaped):
                    sums.append((total, shaped, sizes[1]))
                elif not self._asks_for_shape(total, shaped):
                    return
                else:
                    asked.append((total, shaped))
        dtype = node.attrs["T"].base_dtype
        if dtype.name not in _TYPES:
            return
        for query, shaped in asked:
            shape = shaped.inputs[1]
            if query.type == "Shape":
                self._redirect(Edge(query, 0), shape)
            else:
                axis = self._constant(query, "axis", np.int32(0))
                query.inputs = [shape, axis]
                attrs = {"T": shape.dtype, "Tidx": axis.dtype, "keep_dims": False}
                _become(query, "Prod", attrs)
        for total, shaped, size in sums:
            controls = [*node.controls, *shaped.controls]
            bags = []
            for i, part in enumerate(parts):
                inputs = [part, positions, *_routed(positions.node, len(parts), i)]
                attrs = {"T": dtype, "size": size}
                bags.append(self._make(node, f"{total.name}/part_{i}", "_BagOfRows", attrs, inputs))
                bags[-1].controls = list(dict.fromkeys(controls))
            inputs = [Edge(bag, 0) for bag in bags]
            if total.type == "Mean":
                attrs = {"T": dtype, "N": len(bags)}
                added = self._make(total, f"{total.name}/sum", "AddN", attrs, inputs)
                count = self._constant(total, "size", np.asarray(size, dtype.as_numpy_dtype))
                total.inputs = [Edge(added, 0), count]
                _become(total, "RealDiv", {"T": dtype})
            else:
                total.inputs = inputs
                _become(total, "AddN", {"T": dtype, "N": len(bags)})

    def _asks_for_shape(self, node: Node, shaped: Node) -> bool:
        """Whether what a node says of the rows is what gave them their shape."""
        return (
            node.type in ("Shape", "Size")
            and not node.controls
            and node not in self._kept
            and not any(node in user.controls for user in self._program.nodes)
            and node.output_types[0] == shaped.inputs[1].dtype
            and _is_whole_shape(shaped.inputs[1])
        )

    # -- Nodes -----------------------------------------------------------------------------

    def _users(self, node: Node) -> list[Node]:
        return [n for n in self._program.nodes if node in set(n.predecessors())]

    def _make(
        self, model: Node, name: str, op_type: str, attrs: dict[str, Attr], inputs: list[Edge]
    ) -> Node:
        while name in self._names:
            name += "_"
        self._names.add(name)
        made = Node(
            name,
            registry.lookup(op_type),
            dict(attrs),
            inputs,
            device=model.device,
            order=model.order,
            source=model.source,
        )
        self._made.append(made)
        return made

    def _constant(self, model: Node, name: str, value: Value) -> Edge:
        attrs = {"dtype": dtypes.as_dtype(value.dtype), "value": np.asarray(value)}
        return Edge(self._make(model, f"{model.name}/{name}", "Const", attrs, []), 0)

    def _redirect(self, edge: Edge, to: Edge) -> None:
        for user in self._program.nodes:
            user.inputs = [to if e == edge else e for e in user.inputs]
            user.controls = [to.node if c is edge.node else c for c in user.controls]

    def _clean_up(self) -> None:
        """Puts what was made into the program, and takes out what nobody needs any more."""
        if not self._made:
            return
        whole = self._program.with_nodes([*self._program.nodes, *self._made])
        self._program, self._made = drop_unneeded(whole), []


def _routed(route: Node, count: int, part: int) -> list[Edge]:
    """Which elements are in a part, and which of its indices each has."""
    return [Edge(route, count + 1 + part), Edge(route, 2 * count + 1 + part)]


def _adds_up_bags(node: Node, shaped: Node) -> bool:
    """Whether a node adds up [n, k, width] over k."""
    if node.type not in ("Mean", "Sum") or node.inputs[0].node is not shaped:
        return False
    if shaped in node.controls or node.inputs[1].node.type != "Const":
        return False
    axes = np.reshape(node.inputs[1].node.attrs["value"], -1).tolist()
    return not node.attrs.get("keep_dims") and axes in ([1], [-2])


def _is_whole_shape(edge: Edge) -> bool:
    """Whether a shape surely has no -1 in it."""
    node = edge.node
    if node.type == "ConcatV2":
        return all(_is_whole_shape(part) for part in node.inputs[:-1])
    if node.type == "Const":
        return bool((node.attrs["value"] >= 0).all())
    return node.type == "Shape"


def _sizes(edge: Edge) -> tuple[int | None, ...] | None:
    source = edge.node.source
    if source is None or edge.index >= len(source.outputs):
        return None
    sizes = source.outputs[edge.index].shape.sizes
    return None if sizes is None else tuple(sizes)


def _become(node: Node, op_type: str, attrs: dict[str, Attr]) -> None:
    node.definition = registry.lookup(op_type)
    node.attrs = dict(attrs)
    node.form = None
