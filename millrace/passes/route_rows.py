"""Rows of a table that lies on several tasks: what goes between them.

`pad_unique.py` finds where rows may be padded. Where they stay on one task, they keep their
positions and padding fills the gaps. Between tasks that would be too much to send. So each part is
sent its indices one after the other, filled up with a little padding to one of a few lengths
(`ops/cluster/routed_rows.py`): the receiver is compiled for those lengths only.

Most optimizers add up the gradients of a row that occurs several times. Then the row need only
be sent once each way: indices are made distinct before they are sent, and gradients added up
before they are. Values that are added up here are the same, in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable

from millrace.core.device_spec import task_of
from millrace.core.value import Attr
from millrace.graph import registry
from millrace.passes.node import Edge, Node, Program
from millrace.passes.padded_values import Group, Kind, Kinds, is_row_update, row_inputs
from millrace.passes.unneeded import drop_unneeded

_PARTITION = "DynamicPartition"
_STITCHES = ("DynamicStitch", "ParallelDynamicStitch")
_GATHERS = ("Gather", "GatherV2", "ResourceGather")
_SUMMING_UPDATES = ("ScatterAdd", "ScatterSub", "ResourceScatterAdd", "ResourceScatterSub")


class _Route:
    """What is sorted by one vector of part numbers.

    Attributes:
      partitions: Its DynamicPartitions.
      leader: The one that says where everything goes.
      merges: Whether a row is sent once, however often it occurs.
      distinct: Uniques that find what is distinct already.
    """

    def __init__(self, partitions: list[Node], leader: Node, merges: bool) -> None:
        self.partitions = partitions
        self.leader = leader
        self.merges = merges
        self.distinct: set[Node] = set()
        self.sums: dict[Edge, Node] = {}

    @property
    def count(self) -> int:
        """The number of parts."""
        return int(self.leader.attrs["num_partitions"])

    @property
    def positions(self) -> Edge:
        """Where each element is among all parts, one after the other."""
        return Edge(self.leader, self.count)


class Routes:
    """What `find` found, and how to replace it."""

    def __init__(self) -> None:
        self._routes: dict[Edge, _Route] = {}
        #: The sources that are replaced here.
        self.nodes: set[Node] = set()
        self._instead: dict[Edge, Edge] = {}
        #: Who does the work of a node that others wait for.
        self._successors: dict[Node, Node] = {}
        self._made: list[Node] = []

    def add(self, owner: Edge, route: _Route) -> None:
        """One more route, with the part numbers `owner`."""
        self._routes[owner] = route
        self.nodes.update(route.partitions)

    def of(self, kind: Kind | None) -> _Route | None:
        """The route that a padded value is on."""
        if kind is None or not isinstance(kind.group, tuple) or kind.group[0] == "joined":
            return None
        return self._routes.get(kind.group[0])

    def replace(self, node: Node, kinds: Kinds) -> bool:
        """Replaces a node of a route; returns whether it is one."""
        if node in self.nodes:
            self._replace_partition(node, kinds)
            return True
        first = kinds.get(node.inputs[0]) if node.inputs else None
        if node.type in _STITCHES:
            route = self.of(first)
            if route is not None:
                data = node.inputs[node.attrs["N"] :]
                node.inputs = [route.positions, *data]
                _become(node, "_RoutedStitch", {"T": node.attrs["T"], "N": node.attrs["N"]})
            return route is not None
        if node.type in _GATHERS:
            index = kinds.get(node.inputs[1])
            route = self.of(index)
            if route is None or index is None or not index.in_place:
                return False
            if route.merges:
                made = self._sum(route, node)
                self._instead[Edge(node, 0)] = Edge(made, index.group[1])
                self._successors[node] = made
            else:
                attrs = {"T": node.attrs["Tparams"], "Tindices": node.attrs["Tindices"]}
                node.inputs = node.inputs[:2]
                _become(node, "_MaskedTake", {**attrs, "in_place": False, "zeros": True})
            return True
        if node.type == "Reshape":
            # To the shape that it has: what is sent needs no second name.
            if self.of(first) is None or node.controls:
                return False
            self._instead[Edge(node, 0)] = node.inputs[0]
            return True
        if node.type == "Unique":
            route = self.of(first)
            if route is None or node not in route.distinct:
                return False
            self._instead[Edge(node, 0)] = node.inputs[0]
            return True
        if node.type == "UnsortedSegmentSum":
            positions = kinds.get(node.inputs[1])
            if positions is None or not self._is_distinct(positions.group):
                return False
            self._instead[Edge(node, 0)] = node.inputs[0]
            return True
        if is_row_update(node):
            index = kinds.get(node.inputs[row_inputs(node)[0]])
            route = self.of(index)
            if index is not None and (
                self._is_distinct(index.group) or (route is not None and route.merges)
            ):
                node.attrs = {**node.attrs, "_padded": True, "_distinct": True}
                return True
        return False

    def _is_distinct(self, group: Group) -> bool:
        return any(group in route.distinct for route in self._routes.values())

    def _replace_partition(self, node: Node, kinds: Kinds) -> None:
        route = self._routes[node.inputs[1]]
        if route.merges and node is not route.leader:
            return  # Nobody asks for it any more: `finish` takes it away.
        _become(node, "_RouteRows", {**node.attrs, "merge": route.merges, "placed": True})
        node.output_types = node.definition.signature.output_types(node.attrs)

    def _sum(self, route: _Route, gather: Node) -> Node:
        """The node that adds up what gathers pick from one tensor."""
        values = gather.inputs[0]
        made = route.sums.get(values)
        if made is None:
            indices = [Edge(route.leader, i) for i in range(route.count)]
            made = route.sums[values] = Node(
                f"{gather.name}/sum",
                registry.lookup("_SumRouted"),
                {
                    "T": values.dtype.base_dtype,
                    "Tindices": route.leader.attrs["T"],
                    "N": route.count,
                },
                [values, route.positions, *indices],
                device=gather.device,
                order=gather.order,
                source=gather.source,
            )
            self._made.append(made)
        return made

    def finish(self, program: Program) -> Program:
        """Puts what was made into the program, and takes out what nobody needs any more."""
        if not self._instead:
            return program
        names = {node.name for node in program.nodes}
        for node in self._made:
            while node.name in names:
                node.name += "_"
            names.add(node.name)
        program.nodes.extend(self._made)
        for node in program.nodes:
            node.inputs = [self._now(edge) for edge in node.inputs]
            controls = (self._successors.get(control, control) for control in node.controls)
            node.controls = list(dict.fromkeys(controls))
        return drop_unneeded(program)

    def _now(self, edge: Edge) -> Edge:
        while edge in self._instead:
            edge = self._instead[edge]
        return edge


def _become(node: Node, op_type: str, attrs: dict[str, Attr]) -> None:
    node.definition = registry.lookup(op_type)
    node.attrs = dict(attrs)


def find(ordered: list[Node], kinds: Kinds, sources: set[Node]) -> Routes:
    """The tables whose rows go from task to task.

    Args:
      ordered: The program's nodes, in order.
      kinds: What is known of padded values.
      sources: The nodes that are to be replaced.
    """
    crossing: set[Edge] = set()
    split: set[Edge] = set()
    for node in ordered:
        for edge in node.inputs:
            kind = kinds.get(edge)
            if kind is not None and task_of(edge.node.device) != task_of(node.device):
                crossing |= _owners(kind)
        for kind in _that_must_stay_spread(node, kinds):
            split |= _owners(kind)
    routes = Routes()
    for owner in sorted(crossing, key=lambda edge: edge.name):
        partitions = [
            n for n in ordered if n in sources and n.type == _PARTITION and n.inputs[1] == owner
        ]
        indices = [n for n in partitions if not kinds[Edge(n, 0)].in_place]
        merges = len(indices) == 1 and owner not in split
        routes.add(owner, _Route(partitions, (indices or partitions)[0], merges))
    _find_distinct(ordered, kinds, sources, routes)
    return routes


def _owners(kind: Kind) -> set[Edge]:
    return {node.inputs[1] for node in kind.origins if node.type == _PARTITION}


def _that_must_stay_spread(node: Node, kinds: Kinds) -> Iterable[Kind]:
    """Values of which the node needs each occurrence, not the sum."""
    given = [kinds[edge] for edge in node.inputs if edge in kinds]
    if node.type not in (*_STITCHES, *_GATHERS, "Identity") or (
        node.type in _GATHERS and node.controls
    ):
        yield from (kind for kind in given if kind.in_place)
    if node.type == "UnsortedSegmentSum":
        data = kinds.get(node.inputs[0])
        if data is not None and not data.spread:
            yield data
    elif is_row_update(node):
        index, values = (kinds.get(node.inputs[i]) for i in row_inputs(node))
        adds_up = node.type in _SUMMING_UPDATES and values is not None and values.spread
        if index is not None and isinstance(index.group, tuple) and not adds_up:
            yield index
    elif node.type not in ("Shape", "Size"):
        made = kinds.get(Edge(node, 0))
        if made is None or not made.spread:
            yield from (kind for kind in given if kind.spread)


def _find_distinct(ordered: list[Node], kinds: Kinds, sources: set[Node], routes: Routes) -> None:
    """Notes which Uniques of merged routes can be left out, with the sums that belong to them."""
    waiting = {
        kinds[edge].group
        for node in ordered
        if node.controls
        for edge in [*node.inputs, *(Edge(node, i) for i in range(len(node.output_types)))]
        if edge in kinds and not is_row_update(node)
    }
    for node in sources:
        if node.type == "Unique" and node not in waiting and not node.controls:
            route = routes.of(kinds.get(node.inputs[0]))
            if route is not None and route.merges:
                route.distinct.add(node)
