"""Few lengths for the distinct ids of sparse features, where nobody can tell the difference.

`embedding_lookup_sparse` looks up each id once (Unique), and adds up the rows of the ids of an
example (SparseSegmentSum and its kin) by the positions that Unique gives. How many ids are distinct
differs from batch to batch, and all that follows would be compiled for each number. So the first id
stands a few times more at the end: what is looked up for it there, no position names, and its
gradient there is zero, which an update of rows that adds up those of one id leaves out.

This pass proves that for a Unique: it follows what the ids lead to, from node to node, through
nodes that treat each row by itself, to those that end it. A node that it does not know, or a value
that is fetched, and the Unique stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable

from millrace.graph import registry
from millrace.passes.frames import is_ruled
from millrace.passes.node import Edge, Node, Program
from millrace.passes.padded_values import constant_of, static_rank, static_sizes
from millrace.passes.schedule import topological_order

_COMBINES = frozenset(("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN"))
_GRADIENTS = frozenset(f"{name}Grad" for name in _COMBINES)
_BY_ROW = frozenset(
    "Add AddV2 Cast FloorDiv FloorMod Identity Less Maximum Minimum Mul Select Sub".split()
)
#: Zeros stay zeros.
_SCALES = frozenset(("Identity", "Mul", "Neg", "RealDiv"))
_OF_SIZES = frozenset(("ConcatV2", "ExpandDims", "Pack", "Squeeze", "StridedSlice"))
_GATHERS = frozenset(("Gather", "GatherV2", "ResourceGather"))
_STITCHES = frozenset(("DynamicStitch", "ParallelDynamicStitch"))
_ADDS_ROWS = frozenset(("ScatterAdd", "ScatterSub", "ResourceScatterAdd", "ResourceScatterSub"))

# What is known of a value that has more rows than it should have:
#: each row is made of one id, and those that are too many are again what the first one has;
_ROWS = "rows"
#: the rows' own numbers, or some of them in order: those that are too many are the highest;
_NUMBERS = "numbers"
#: those that are too many are zeros;
_ZEROS = "zeros"
#: which of the distinct rows each row is;
_POSITIONS = "positions"
#: it is made of the number of rows.
_SIZE = "size"


def few_unique(program: Program) -> Program:
    """Gives the distinct ids of sparse features one of a few lengths, where nobody sees that."""
    if not program.setting.home or is_ruled(program) or not _uniques_of_ids(program):
        return program
    program = program.copy()
    found = _uniques_of_ids(program)
    ordered = topological_order(program.nodes)
    for node in found:
        if _Walk(node).is_unseen(ordered, program.results):
            node.definition = registry.lookup("_FewUnique")
            _leave_number_of_ids_open(node, ordered)
    return program.with_nodes(_without_idle_slices(program))


def _uniques_of_ids(program: Program) -> list[Node]:
    return [node for node in program.nodes if node.type == "Unique" and _is_of_ids(node, program)]


def _is_of_ids(node: Node, program: Program) -> bool:
    positions = Edge(node, 1)
    return node.inputs[0].dtype.base_dtype.name in ("int32", "int64") and any(
        user.type in _COMBINES and user.inputs[1] == positions for user in program.nodes
    )


def _leave_number_of_ids_open(unique: Node, ordered: Iterable[Node]) -> None:
    """Lets the host do what would be a program for each number of ids."""
    for user in ordered:
        if len(user.inputs) < 3 or user.inputs[1] != Edge(unique, 1):
            continue
        if user.type in _COMBINES:
            _take_column_on_host(user.inputs[2].node)
        elif user.type in _GRADIENTS and user.output_types[0].name in ("float32", "float64"):
            norm = user.type.removeprefix("SparseSegment").removesuffix("Grad")
            user.attrs = {**user.attrs, "norm": norm.encode()}
            user.definition = registry.lookup("_SparseSegmentGradOnHost")


def _take_column_on_host(node: Node) -> None:
    """Takes `x[:, 0]` of whole numbers there, where `node` casts it."""
    column = node.inputs[0].node if node.type == "Cast" else None
    if column is None or column.type != "StridedSlice" or static_rank(column.inputs[0]) != 2:
        return
    masks = {name: value for name, value in column.attrs.items() if name.endswith("_mask")}
    wanted = {"begin_mask": 1, "end_mask": 1, "shrink_axis_mask": 2}
    if {name: value for name, value in masks.items() if value} != wanted:
        return
    _, begin, _, strides = (edge.node for edge in column.inputs)
    if begin.type != "Const" or strides.type != "Const":
        return
    if begin.attrs["value"].reshape(-1)[1] != 0 or (strides.attrs["value"] != 1).any():
        return
    kinds = {"T": node.attrs["SrcT"], "dtype": node.attrs["DstT"]}
    if any(kind.name not in ("int32", "int64") for kind in kinds.values()):
        return
    node.inputs = [column.inputs[0]]
    node.attrs = kinds
    node.definition = registry.lookup("_FirstColumn")


def _without_idle_slices(program: Program) -> list[Node]:
    used = {source for node in program.nodes for source in node.predecessors()}
    used.update(program.targets, (edge.node for edge in program.results))
    return [node for node in program.nodes if node.type != "StridedSlice" or node in used]


class _Walk:
    def __init__(self, unique: Node) -> None:
        self._unique = unique
        self._positions = Edge(unique, 1)
        self._kinds = {Edge(unique, 0): _ROWS}

    def is_unseen(self, ordered: Iterable[Node], results: Iterable[Edge]) -> bool:
        """Whether it makes no difference if the distinct elements are too many."""
        for node in ordered:
            if node is self._unique or not any(edge in self._kinds for edge in node.inputs):
                continue
            made = self._made(node)
            if made is None:
                return False
            for i, kind in made.items():
                self._kinds[Edge(node, i)] = kind
        return not any(edge in self._kinds for edge in results)

    def _made(self, node: Node) -> dict[int, str] | None:
        """Kinds of outputs, without those that are as they should be; None if nobody knows."""
        given = [self._kinds.get(edge) for edge in node.inputs]
        kinds = {kind for kind in given if kind is not None}
        (kind, *more) = kinds
        others = [edge for edge, k in zip(node.inputs, given, strict=True) if k is None]
        with_scalars = not more and all(static_rank(edge) == 0 for edge in others)
        if node.type in _BY_ROW and kind == _ROWS and with_scalars:
            return {0: _ROWS}
        if node.type in _SCALES and kind == _ZEROS and with_scalars and given.count(kind) == 1:
            return {0: _ZEROS} if given[0] == _ZEROS or node.type == "Mul" else None
        if node.type == "Identity":
            return {0: kind}
        if node.type == "Shape" or (node.type == "Size" and static_rank(node.inputs[0]) == 1):
            return {0: _SIZE} if kind in (_ROWS, _NUMBERS, _ZEROS) else None
        if node.type in _OF_SIZES:
            return {0: _SIZE} if kinds == {_SIZE} else None
        if node.type == "Range":
            counts = constant_of(node.inputs[0]) == 0 and constant_of(node.inputs[2]) == 1
            return {0: _NUMBERS} if counts and kinds == {_SIZE} else None
        if node.type == "Reshape":
            return self._reshaped(node, given)
        if node.type == "DynamicPartition":
            if given[1] != _ROWS or given[0] not in (_ROWS, _NUMBERS):
                return None
            return dict.fromkeys(range(node.attrs["num_partitions"]), given[0])
        if node.type in _STITCHES:
            count = node.attrs["N"]
            whole = {*given[:count]} == {_NUMBERS} and {*given[count:]} == {_ROWS}
            return {0: _ROWS} if whole else None
        if node.type in _GATHERS:
            return self._gathered(node, given)
        return self._ended(node, given)

    def _reshaped(self, node: Node, given: list[str | None]) -> dict[int, str] | None:
        """The same rows; for the shape is made of their number, or leaves it open."""
        before, after = static_sizes(node.inputs[0]), static_sizes(Edge(node, 0))
        kind = given[0]
        if kind not in (_ROWS, _NUMBERS, _ZEROS) or given[1] not in (_SIZE, None):
            return None
        if given[1] is None and not _leaves_rows_open(node.inputs[1]):
            return None
        if not before or not after or None in before[1:] or before[1:] != after[1:]:
            return None
        return {0: kind}

    def _gathered(self, node: Node, given: list[str | None]) -> dict[int, str] | None:
        params, indices, *axis = given
        if node.attrs.get("batch_dims", 0) or any(axis):
            return None
        if node.type == "GatherV2" and constant_of(node.inputs[2]) != 0:
            return None
        if params is None and indices == _ROWS and static_rank(node.inputs[1]) == 1:
            return {0: _ROWS}
        if params == _ZEROS and indices == _NUMBERS:
            return {0: _ZEROS}
        return None

    def _ended(self, node: Node, given: list[str | None]) -> dict[int, str] | None:
        """What nodes make of it that look at the rows that should be there, or at all but zeros."""
        if node.type in _COMBINES:
            by_position = given == [_ROWS, None, None] and node.inputs[1] == self._positions
            return {} if by_position else None
        if node.type in _GRADIENTS:
            by_position = given == [None, None, None, _SIZE] and node.inputs[1] == self._positions
            return {0: _ZEROS} if by_position else None
        if node.type == "Unique":
            return {1: _POSITIONS} if given == [_ROWS] else None
        if node.type == "UnsortedSegmentSum":
            return {} if given == [_ZEROS, _POSITIONS, None] else None
        if node.type in _ADDS_ROWS:
            return {} if given == [None, _ROWS, _ZEROS] else None
        if node.type == "L2Loss":
            return {} if given == [_ZEROS] else None
        return None


def _leaves_rows_open(shape: Edge) -> bool:
    """Whether a shape is a constant that begins with -1."""
    if shape.node.type != "Const":
        return False
    sizes = shape.node.attrs["value"].reshape(-1)
    return bool(sizes.size and sizes[0] == -1)
