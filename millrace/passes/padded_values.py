"""What becomes of padding: a walk from the nodes that pick rows by data to their users.

It follows kinds of padded values from node to node. What a node that is not known here makes
of padding, nobody can say: then what led there must stay as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

from millrace.core.value import Value
from millrace.passes.node import Edge, Node

#: Hands out the rows that several workers' gradients have.
TAKE = "SparseAccumulatorTakeGradient"
#: Takes rows of a gradient.
APPLY = "SparseAccumulatorApplyGradient"

_INDEX_TYPES = frozenset(("int32", "int64"))


#: What was picked by data: the node that picks, (what is divided, which part of it), or ("joined",
#: the groups that were joined).
Group: TypeAlias = Any


class Kind(NamedTuple):
    """What is known of a padded value.

    Attributes:
      what: ``index``: a vector of row numbers, some of which are padding. ``rows``: as many rows
        as there are indices, anything where the index is padding. ``positions``: which of the rows
        of `group` each of the rows of `along` belongs to. ``size``: made of the padded length.
      group: What was picked: values of one group have the same length and padding.
      origins: The host ops that are to be replaced.
      in_place: Of an index: every entry is its own position, or padding.
      along: Of positions: the group that they are aligned with; None if that has no padding.
      spread: Of rows: a row for each time that its index occurs, and their user adds up
        those of one index.
    """

    what: str
    group: Group
    origins: frozenset[Node]
    in_place: bool = False
    along: Group | None = None
    spread: bool = False


Kinds = dict[Edge, Kind]
#: (node, kinds so far) -> kinds of its outputs, or None if it does not know the padding.
_Rule = Callable[[Node, Kinds], "dict[int, Kind] | None"]


def is_source(node: Node) -> bool:
    """Whether the node picks rows by data."""
    if node.type == TAKE:
        return True
    if node.type in ("Unique", "DynamicPartition"):
        if node.inputs[0].dtype.base_dtype.name not in _INDEX_TYPES:
            return False
        return node.type == "Unique" or static_rank(node.inputs[0]) == 1
    return False


def follow(
    ordered: Iterable[Node], sources: set[Node], results: Iterable[Edge]
) -> tuple[Kinds, set[Node]]:
    """Kinds of all padded values, and the sources of those that reach a node not known here."""
    kinds: Kinds = {}
    culprits: set[Node] = set()
    for node in ordered:
        given = [kinds[edge] for edge in node.inputs if edge in kinds]
        made: dict[int, Kind] | None = None
        if node in sources:
            made = _SOURCES[node.type](node, kinds)
        elif given:
            rule = _RULES.get(node.type)
            if rule is None and is_row_update(node):
                rule = _row_update
            made = None if rule is None else rule(node, kinds)
        else:
            continue
        if made is None:
            culprits.update(*(kind.origins for kind in given))
            if node in sources:
                culprits.add(node)
            continue
        for i, kind in made.items():
            kinds[Edge(node, i)] = kind
    for edge in results:
        if edge in kinds:
            culprits.update(kinds[edge].origins)
    return kinds, culprits


# -- What nodes make of padding ------------------------------------------------------------


def _unique(node: Node, kinds: Kinds) -> dict[int, Kind] | None:
    x = kinds.get(node.inputs[0])
    if x is not None and x.what != "index":
        return None
    origins = frozenset((node,)) | (x.origins if x else frozenset())
    along = x.group if x else None
    return {0: Kind("index", node, origins), 1: Kind("positions", node, origins, along=along)}


def _taken(node: Node, kinds: Kinds) -> dict[int, Kind] | None:
    origins = frozenset((node,))
    return {0: Kind("index", node, origins), 1: Kind("rows", node, origins)}


def _partition(node: Node, kinds: Kinds) -> dict[int, Kind] | None:
    if any(edge in kinds for edge in node.inputs):
        return None
    data, partitions = node.inputs
    in_place = _counts_up(data)
    origins = frozenset((node,))
    return {
        i: Kind("index", (partitions, i), origins, in_place)
        for i in range(node.attrs["num_partitions"])
    }


def _stitch(node: Node, kinds: Kinds) -> dict[int, Kind] | None:
    count = node.attrs["N"]
    indices = [kinds.get(edge) for edge in node.inputs[:count]]
    data = [kinds.get(edge) for edge in node.inputs[count:]]
    first = indices[0]
    if first is None or not isinstance(first.group, tuple) or len(first.origins) != 1:
        return None
    (partition,) = first.origins
    if partition.attrs.get("num_partitions") != count:
        return None
    for i, (index, rows) in enumerate(zip(indices, data, strict=True)):
        if index is None or rows is None or index.what != "index" or rows.what != "rows":
            return None
        if not index.in_place or index.origins != first.origins:
            return None
        if not index.group == rows.group == (partition.inputs[1], i):
            return None
    return {}


def _same(node: Node, kinds: Kinds) -> dict[int, Kind] | None:
    kind = kinds[node.inputs[0]]
    return {0: kind} if len(node.inputs) == 1 else None


def _elementwise(node: Node, kinds: Kinds) -> dict[int, Kind] | None:
    """Rows with rows of the same group, or with a scalar."""
    group: Any = None
    origins: frozenset[Node] = frozenset()
    for edge in node.inputs:
        kind = kinds.get(edge)
        if kind is None:
            if static_rank(edge) != 0:
                return None
        elif kind.what != "rows" or (group is not None and kind.group != group):
            return None
        else:
            group, origins = kind.group, origins | kind.origins
    return {0: Kind("rows", group, origins, spread=_is_linear(node, kinds))}


def _is_linear(node: Node, kinds: Kinds) -> bool:
    """Whether adding up the inputs' rows gives the sum of the output's."""
    spread = [edge in kinds and kinds[edge].spread for edge in node.inputs]
    if node.type in ("Add", "AddN", "AddV2", "Sub"):
        return all(spread)
    return spread[0] and not any(spread[1:]) and node.type in ("Div", "Mul", "Neg", "RealDiv")


def _adds_squares(node: Node, kinds: Kinds) -> dict[int, Kind] | None:
    """Zeros add nothing; `needs_zeros` says who must put them where padding is."""
    return {} if kinds[node.inputs[0]].spread else None


def needs_zeros(nodes: Iterable[Node], kinds: Kinds) -> set[Group]:
    """The groups whose spread rows must be zeros where the index is padding."""
    pending = [
        kinds[node.inputs[0]].group
        for node in nodes
        if node.type == "L2Loss" and node.inputs[0] in kinds
    ]
    found: set[Any] = set()
    while pending:
        group = pending.pop()
        found.add(group)
        if isinstance(group, tuple) and group[0] == "joined":
            pending.extend(group[1])
    return found


def _length(node: Node, kinds: Kinds) -> dict[int, Kind] | None:
    kind = kinds[node.inputs[0]]
    if kind.what not in ("index", "rows"):
        return None
    return {0: Kind("size", kind.group, kind.origins)}


def _size_arithmetic(node: Node, kinds: Kinds) -> dict[int, Kind] | None:
    """A part of a shape, or a shape made of parts."""
    given = [kinds[edge] for edge in node.inputs if edge in kinds]
    if any(kind.what != "size" or kind.group != given[0].group for kind in given):
        return None
    return {0: Kind("size", given[0].group, frozenset().union(*(k.origins for k in given)))}


def _concat(node: Node, kinds: Kinds) -> dict[int, Kind] | None:
    """Shapes; or indices, and alike their rows, one after the other."""
    *parts, axis = node.inputs
    found = [kinds.get(edge) for edge in parts]
    known = [kind for kind in found if kind is not None]
    if not known or constant_of(axis) != 0:
        return None
    what = known[0].what
    if any(kind.what != what for kind in known):
        return None
    if what == "size":
        return _size_arithmetic(node, kinds)
    if what not in ("index", "rows"):
        return None
    group = tuple("exact" if kind is None else kind.group for kind in found)
    origins = frozenset().union(*(k.origins for k in known))
    spread = all(kind.spread for kind in known)
    return {0: Kind(what, ("joined", group), origins, spread=spread)}


def _reshape(node: Node, kinds: Kinds) -> dict[int, Kind] | None:
    """To the shape that it has, as gradients of lookups do; or a shape's own shape."""
    data, shape = kinds.get(node.inputs[0]), kinds.get(node.inputs[1])
    if data is None:
        return None
    if data.what == "size":
        return _size_arithmetic(node, kinds)
    if data.what not in ("index", "rows") or (shape is not None and shape.group != data.group):
        return None
    before, after = static_sizes(node.inputs[0]), static_sizes(Edge(node, 0))
    if not before or not after or None in before[1:] or before[1:] != after[1:]:
        return None
    return {0: data}


def _segment_sum(node: Node, kinds: Kinds) -> dict[int, Kind] | None:
    """Rows added up by position: as many as there are indices to update."""
    data, positions, count = (kinds.get(edge) for edge in node.inputs)
    if positions is None or count is None or positions.what != "positions" or count.what != "size":
        return None
    if count.group is not positions.group:
        return None
    if positions.along is None:
        if data is not None:
            return None
    elif data is None or data.what != "rows" or data.group != positions.along:
        return None
    origins = positions.origins | (data.origins if data else frozenset())
    return {0: Kind("rows", positions.group, origins)}


def _gather(node: Node, kinds: Kinds) -> dict[int, Kind] | None:
    indices = kinds.get(node.inputs[1])
    if indices is None or indices.what != "index" or node.inputs[0] in kinds:
        return None
    if node.attrs.get("batch_dims", 0) or (
        node.type == "GatherV2" and constant_of(node.inputs[2]) != 0
    ):
        return None
    return {0: Kind("rows", indices.group, indices.origins, spread=indices.in_place)}


def _row_update(node: Node, kinds: Kinds) -> dict[int, Kind] | None:
    """Updates of rows drop those whose index is padding."""
    indices, values = (kinds.get(node.inputs[i]) for i in row_inputs(node))
    if indices is None or indices.what != "index":
        return None
    if values is None:
        if static_rank(node.inputs[row_inputs(node)[1]]) != 0:
            return None
    elif values.what != "rows" or values.group != indices.group:
        return None
    padded = [edge for edge in node.inputs if edge in kinds]
    return {} if len(padded) == (1 if values is None else 2) else None


def is_row_update(node: Node) -> bool:
    if not node.definition.updates or "Nd" in node.type:
        return False
    names = [arg.name for arg in node.definition.signature.inputs]
    return "indices" in names and ("grad" in names or "updates" in names)


def row_inputs(node: Node) -> tuple[int, int]:
    """Where an update of rows has its indices and its values."""
    names = [arg.name for arg in node.definition.signature.inputs]
    return names.index("indices"), names.index("grad" if "grad" in names else "updates")


def _applied(node: Node, kinds: Kinds) -> dict[int, Kind] | None:
    """An accumulator leaves padding out."""
    given = [i for i, edge in enumerate(node.inputs) if edge in kinds]
    indices, values = (kinds.get(node.inputs[i]) for i in (2, 3))
    if given != [2, 3] or indices is None or values is None or indices.group != values.group:
        return None
    return {} if (indices.what, values.what) == ("index", "rows") else None


def _cast(node: Node, kinds: Kinds) -> dict[int, Kind] | None:
    kind = kinds[node.inputs[0]]
    if kind.what != "index":
        return _elementwise(node, kinds)
    return {0: kind} if node.output_types[0].name in _INDEX_TYPES else None


_SOURCES: dict[str, _Rule] = {"Unique": _unique, "DynamicPartition": _partition, TAKE: _taken}

_RULES: dict[str, _Rule] = {
    "Identity": _same,
    "Shape": _length,
    "Size": _length,
    "StridedSlice": _size_arithmetic,
    "ExpandDims": _size_arithmetic,
    "Squeeze": _size_arithmetic,
    "Pack": _size_arithmetic,
    "ConcatV2": _concat,
    "Reshape": _reshape,
    "UnsortedSegmentSum": _segment_sum,
    "Gather": _gather,
    "GatherV2": _gather,
    "ResourceGather": _gather,
    "DynamicStitch": _stitch,
    "ParallelDynamicStitch": _stitch,
    "Cast": _cast,
    "L2Loss": _adds_squares,
    APPLY: _applied,
}
_RULES.update(
    dict.fromkeys(
        "Abs Add AddN AddV2 Div Maximum Minimum Mul Neg Pow RealDiv Rsqrt Sign Sqrt Square "
        "Sub".split(),
        _elementwise,
    )
)


# -- What is known of values ---------------------------------------------------------------


def static_sizes(edge: Edge) -> tuple[int | None, ...] | None:
    source = edge.node.source
    if source is None or edge.index >= len(source.outputs):
        return None
    sizes = source.outputs[edge.index].shape.sizes
    return None if sizes is None else tuple(sizes)


def static_rank(edge: Edge) -> int | None:
    sizes = static_sizes(edge)
    return None if sizes is None else len(sizes)


def constant_of(edge: Edge) -> Value:
    """The value of a constant with one element, else None."""
    if edge.node.type != "Const" or edge.node.attrs["value"].size != 1:
        return None
    return edge.node.attrs["value"].item()


def _counts_up(edge: Edge) -> bool:
    """Whether a vector is 0, 1, 2, …"""
    while edge.node.type in ("Identity", "Reshape"):
        edge = edge.node.inputs[0]
    node = edge.node
    if node.type != "Range" or static_rank(edge) != 1:
        return False
    return bool(constant_of(node.inputs[0]) == 0 and constant_of(node.inputs[2]) == 1)
