"""Rows of a large table, taken and updated where they lie, by the host.

XLA's loops over rows cost several times what copying the rows does. So a stage copies the rows
that a step names, lets XLA work out what becomes of them, and copies them back. Nothing of the
table's size is made, read or written.

A table is written in place only while nobody else looks at it. XLA itself sees to that: the
program that works out the new rows is given the table as a donated buffer, and hands back the
same buffer, or a copy if somebody holds a view of the old one, once all programs that read it are
done. Readers are never shown a table in between: until the new one is stored, the old one is void
and its lock held. Whatever is out of the ordinary is left to the compiled stage.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections import Counter
from typing import Any

import numpy as np

from millrace.compiler import budget, one_pass
from millrace.compiler.xla import JOINING_LOOPS, compiled, jax
from millrace.core import aligned, errors
from millrace.core.written import Written
from millrace.ops.cluster.padded_unique import padding
from millrace.ops.cluster.routed_rows import written_sums
from millrace.ops.state.row_updates import ROW_UPDATES
from millrace.passes.node import Edge, Node, Program, is_variable_edge, variable_of
from millrace.passes.transfer import RECEIVE, SEND
from millrace.runtime.compile_ahead import Form
from millrace.runtime.compiled_stage import CompiledStage
from millrace.runtime.found import FoundVariables, in_lock_order
from millrace.runtime.kernel_call import call_plainly
from millrace.runtime.resources import VariableSlot
from millrace.runtime.stage import Value, positions_of
from millrace.runtime.stages.transfer import SendStage, can_send
from millrace.runtime.step import Step

#: Rows of smaller tables are left to XLA.
MIN_TABLE_BYTES = 1 << 20
#: For so many numbers of rows memory is kept.
_MAX_LENGTHS = 8
#: So many arrays' memory is known without asking.
_MAX_KNOWN = 32
_UNSIGNED = {np.dtype(np.int32): np.dtype(np.uint32), np.dtype(np.int64): np.dtype(np.uint64)}
_STITCH = "_RoutedStitch"
_PLAIN = ("_BagOfRows", "_SumBags", "_RouteIds", "_RouteRows")
_TAKES = ("_MaskedTake", "_MaskedResourceTake", "Gather", "GatherV2", "ResourceGather")


def applies(node: Node, wanted: set[Edge]) -> bool:
    """Whether a node takes or updates rows of a large table that another task names, or joins them.

    Args:
      node: The node.
      wanted: Edges whose values are used.
    """
    if node.type in _PLAIN:
        return True
    if node.type == _STITCH:
        return all(e.node.definition is RECEIVE for e in node.inputs[1:]) and _is_on_cpu()
    if node.type in _TAKES:
        params, indices = node.inputs[0], node.inputs[1]
        return (
            indices.node.definition is RECEIVE
            and is_variable_edge(params)
            and _is_large(variable_of(params))
            and not node.attrs.get("zeros")
            and not node.attrs.get("batch_dims")
            and (node.type != "GatherV2" or _is_zero(node.inputs[2]))
            and _is_on_cpu()
        )
    update = ROW_UPDATES.get(node.type)
    if update is None or not node.attrs.get("_distinct"):
        return False
    count = update.variables
    return (
        all(_is_large(variable_of(edge)) for edge in node.inputs[:count])
        and not any(is_variable_edge(edge) for edge in node.inputs[count:])
        and not any(Edge(node, i) in wanted for i in range(len(node.output_types)))
        and _is_on_cpu()
    )


def nodes_in_rows(program: Program) -> set[Node]:
    """The nodes of a program that `applies` is true of."""
    used = {edge for node in program.nodes for edge in node.inputs} | set(program.results)
    return {node for node in program.nodes if applies(node, used)}


def row_stage(
    node: Node, wanted: set[Edge], name: str
) -> TakeStage | UpdateStage | StitchStage | PlainStage:
    """The stage of a node that `applies` is true of."""
    if node.type in _PLAIN:
        return SumBagsStage(node) if node.type == "_SumBags" else PlainStage(node)
    if node.type == _STITCH:
        return StitchStage(node)
    outputs = [edge for i in range(len(node.output_types)) if (edge := Edge(node, i)) in wanted]
    return (TakeStage if node.type in _TAKES else UpdateStage)(node, outputs, name)


def _is_large(variable: Node | None) -> bool:
    if variable is None:
        return False
    shape, dtype = variable.attrs["shape"], variable.attrs["dtype"].base_dtype
    count = shape.num_elements()
    return (
        count is not None
        and shape.ndims >= 2
        and (dtype.is_floating or dtype.is_integer)
        and count * dtype.size >= MIN_TABLE_BYTES
    )


def _is_zero(edge: Edge) -> bool:
    return edge.node.type == "Const" and not edge.node.attrs["value"].any()


def _is_on_cpu() -> bool:
    return bool(jax.default_backend() == "cpu")


class _RowStage:
    """What both kinds have in common; `_compiled` does the same in the ordinary way."""

    may_block = False
    is_short = True

    def __init__(self, node: Node, outputs: list[Edge], name: str, count: int) -> None:
        self.node = node
        self.nodes = [node]
        self._compiled = CompiledStage([node], outputs, name)
        self.inputs = self._compiled.inputs
        self.outputs = outputs
        tables = map(variable_of, node.inputs[:count])
        self._tables = [table for table in tables if table is not None]
        positions = {edge: i for i, edge in enumerate(self.inputs)}
        #: Of each input that is no table: its position among `inputs`, or None and its value.
        self._given: list[tuple[int | None, Any]] = [
            (positions.get(edge), edge.node.attrs.get("value")) for edge in node.inputs[count:]
        ]
        self._slots = FoundVariables(self._tables)
        #: What the tables are unless somebody assigned one of another shape.
        self._shape = tuple(self._tables[0].attrs["shape"].as_list())
        width = math.prod(self._shape[1:])
        self._memories = [
            _Memory(width * np.dtype(table.attrs["dtype"].base_dtype.as_numpy_dtype).itemsize)
            for table in self._tables
        ]

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    def _values(self, inputs: list[Value]) -> list[Value]:
        """The values of all inputs that are no tables."""
        return [known if position is None else inputs[position] for position, known in self._given]


class TakeStage(_RowStage):
    """Takes rows of a table."""

    def __init__(self, node: Node, outputs: list[Edge], name: str) -> None:
        super().__init__(node, outputs, name, 1)
        self._padded = node.type.startswith("_Masked")

    def run(self, inputs: list[Value], step: Step) -> list[Value]:
        """The rows; any rows where an index is padding."""
        indices = np.asarray(self._values(inputs)[0])
        (slot,) = self._slots.slots(step.resources)
        with slot.lock:
            value = slot.value  # Held here: its memory must not go when a container is cleared.
            shape = self._shape
            if self.outputs and value is not None and value.shape == shape:
                count = _count_rows(indices, shape[0], self._padded)
                if count is not None:
                    table = self._memories[0].of(value, shape[0])
                    rows = np.empty((*indices.shape, *shape[1:]), value.dtype)
                    # Bounds are checked; with any other mode, NumPy makes a copy first.
                    own = _whole_rows(rows, indices.shape)[:count]
                    table.take(indices[:count], out=own, mode="clip")
                    return [rows]
        return self._compiled.run(inputs, step)

    def written(self, inputs: list[Value], step: Step) -> Value:
        """As `run`, but the rows are taken when their position is known."""
        indices = np.asarray(self._values(inputs)[0])
        (slot,) = self._slots.slots(step.resources)
        shape, value = self._shape, slot.value
        if value is None or value.shape != shape:
            return self.run(inputs, step)[0]
        count = _count_rows(indices, shape[0], self._padded)
        if count is None:
            return self.run(inputs, step)[0]

        def write(rows: object) -> None:
            with slot.lock:
                value = slot.value
                if value is None or value.shape != shape:
                    raise errors.AbortedError(None, None, f"{slot.name} was reset.")
                own = _whole_rows(rows, indices.shape)[:count]
                table = self._memories[0].of(value, shape[0])
                table.take(indices[:count], out=own, mode="clip")

        return Written((*indices.shape, *shape[1:]), value.dtype, write)


class UpdateStage(_RowStage):
    """Updates rows of a table and of its slots; no row is named twice."""

    def __init__(self, node: Node, outputs: list[Edge], name: str) -> None:
        self._update = ROW_UPDATES[node.type]
        super().__init__(node, outputs, name, self._update.variables)
        self._padded = bool(node.attrs.get("_padded"))
        #: Made at the first run: XLA must not be asked about before its threads are chosen.
        self._program: Any = None
        #: For how many rows it was compiled.
        self._lengths: set[int] = set()
        #: By their number: memory for rows of each table, used while `_lock` is held.
        self._rows: dict[int, list[Any]] = {}
        self._lock = threading.Lock()

    def _new_rows(self, tables: list[Value], rows: list[Value], given: list[Value]) -> Value:
        with one_pass.tracing(one_pass.is_possible()):
            return tables, list(self._update.apply(rows, given, self.node))

    def run(self, inputs: list[Value], step: Step) -> list[Value]:
        """Updates the rows."""
        update = self._update
        given = self._values(inputs)
        indices = np.asarray(given[update.indices - update.variables])
        gradient = given[update.gradient - update.variables]
        given[update.indices - update.variables] = None
        slots = self._slots.slots(step.resources)
        locked = in_lock_order(slots)
        if indices.ndim == 1 and len(indices) not in self._lengths:
            self._compile(slots, len(indices), given)
        with self._lock:
            for slot in locked:
                slot.lock.acquire()
            try:
                is_each_another = len(locked) == len(slots)
                if is_each_another and self._update_rows(slots, indices, gradient.shape, given):
                    step.xla_calls += 1
                    return []
            finally:
                for slot in reversed(locked):
                    slot.lock.release()
        return self._compiled.run(inputs, step)

    def _compile(self, slots: list[VariableSlot], length: int, given: list[Value]) -> None:
        """Compiles for so many rows, while others use the variables.

        Raises:
          ResourceExhaustedError: It takes more than its budget.
        """
        tables = [slot.value for slot in slots]
        if any(not isinstance(table, jax.Array) for table in tables):
            return
        kinds = [table.dtype for table in tables]
        with self._lock:
            if self._program is None:
                options = JOINING_LOOPS if one_pass.is_possible() else None
                self._program = compiled(self._new_rows, donate_argnums=(0, 1), options=options)

        def form(shape: tuple[int, ...], kind: np.dtype) -> Form:
            return jax.ShapeDtypeStruct(shape, kind)  # type: ignore[no-untyped-call]

        rows = [form((length, *self._shape[1:]), kind) for kind in kinds]
        others = [None if v is None else form(v.shape, v.dtype) for v in given]
        lowered = self._program.lower([form(self._shape, kind) for kind in kinds], rows, others)
        try:
            budget.compile(lowered, self.name, self.nodes)
        except budget.CompilerBusyError:
            return  # Such a program is small: it is compiled when it is called.
        if len(self._lengths) >= _MAX_LENGTHS:
            self._lengths.clear()
        self._lengths.add(length)

    def _update_rows(
        self,
        slots: list[VariableSlot],
        indices: Value,
        gradient: tuple[int, ...],
        given: list[Value],
    ) -> bool:
        """Updates the rows, or nothing; returns whether it could."""
        if self._program is None:
            return False
        tables = [slot.value for slot in slots]
        shape, length = self._shape, len(indices)
        for table in tables:
            if not isinstance(table, jax.Array) or table.shape != shape:
                return False
        all_rows = (length, *shape[1:])
        if gradient not in ((), all_rows) or indices.ndim != 1:
            return False
        count = _count_rows(indices, shape[0], self._padded)
        if count is None:
            return False
        positions = indices[:count]
        rows = self._rows.pop(length, None)
        if rows is None:
            if len(self._rows) >= _MAX_LENGTHS:
                self._rows.clear()
            rows = [jax.device_put(np.zeros(all_rows, table.dtype)) for table in tables]
        for memory, table, part in zip(self._memories, tables, rows, strict=True):
            own = memory.of(part, length)[:count]
            memory.of(table, shape[0]).take(positions, out=own, mode="clip")
        held = [slot.held for slot in slots if slot.held is not None]
        for each in held:
            each.before_change(positions)
        try:
            tables, rows = self._program(tables, rows, given)
            for slot, memory, table, part in zip(slots, self._memories, tables, rows, strict=True):
                memory.of(table, shape[0])[positions] = memory.of(part, length)[:count]
                slot.value = table
        finally:
            for each in held:
                each.after_change()
        self._rows[length] = rows
        return True


class PlainStage:
    """A host op of every step on arrays, whose call is worked out once."""

    may_block = False
    is_short = True

    def __init__(self, node: Node) -> None:
        self.node = node
        self.nodes = [node]
        self.inputs = list(dict.fromkeys(node.inputs))
        self.outputs = [Edge(node, i) for i in range(len(node.output_types))]
        self._positions = positions_of(node.inputs, self.inputs)

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    def run(self, inputs: list[Value], step: Step) -> list[Value]:
        """Calls the kernel."""
        arrays = [np.asarray(inputs[position]) for position in self._positions]
        return call_plainly(self.node, arrays, step)


class SumBagsStage(PlainStage):
    """Adds up gradients by row."""

    def written(self, inputs: list[Value], step: Step) -> Value:
        """As `run`, but the sums are made when their position is known."""
        arrays: list[Any] = [np.asarray(inputs[position]) for position in self._positions]
        return written_sums(self.node.attrs["size"], *arrays)


class SentRowsStage:
    """Rows that are sent as soon as they are made: they are made in the message."""

    may_block = False
    is_short = True

    def __init__(self, maker: TakeStage | SumBagsStage, send: SendStage) -> None:
        self._maker, self._send = maker, send
        self.node = send.node
        self.nodes = [send.node, maker.node]
        made = Edge(maker.node, 0)
        given = [edge for edge in send.inputs if edge != made]
        self.inputs = list(dict.fromkeys([*maker.inputs, *given]))
        self.outputs: list[Edge] = []
        positions = {edge: i for i, edge in enumerate(self.inputs)}
        self._needed = [positions[edge] for edge in maker.inputs]
        #: Where each input of the send is; None for what is made.
        self._given = [positions.get(edge) if edge != made else None for edge in send.inputs]

    @property
    def name(self) -> str:
        """The name of the node that sends."""
        return self.node.name

    def run(self, inputs: list[Value], step: Step) -> list[Value]:
        """Makes and sends them."""
        made = self._maker.written([inputs[position] for position in self._needed], step)
        return self._send.run([made if i is None else inputs[i] for i in self._given], step)


def sent_rows(maker: Node, send: Node, wanted: set[Edge], name: str) -> SentRowsStage:
    """The stage of a send that makes its rows."""
    rows = row_stage(maker, wanted, name)
    assert isinstance(rows, TakeStage | SumBagsStage)
    return SentRowsStage(rows, SendStage(send))


def made_for_sends(
    program: Program, in_rows: set[Node], staged: set[Node], uses: Counter[Edge]
) -> dict[Node, Node]:
    """The sends of rows that nobody else wants, with the nodes that make these.

    Table rows are taken when they are sent: only if nothing else can come between.

    Args:
      program: The program.
      in_rows: The nodes that `applies` is true of.
      staged: All nodes that stages run.
      uses: How often each value is used.
    """
    awaited = {control for node in program.nodes for control in node.controls}
    found: dict[Node, Node] = {}
    for send in program.nodes:
        if send.definition is not SEND or not can_send(send) or send.attrs["last"]:
            continue
        if send.attrs.get("on_request"):
            continue
        for edge in send.inputs:
            maker = edge.node
            if uses[edge] != 1 or maker in awaited or maker not in in_rows:
                continue
            others = [n for n in send.predecessors() if n is not maker]
            if maker.type == "_SumBags" or (maker.type in _TAKES and staged.isdisjoint(others)):
                found[send] = maker
                break
    return found


class StitchStage:
    """Puts rows that several tasks sent where they are wanted."""

    may_block = False
    is_short = True

    def __init__(self, node: Node) -> None:
        self.node = node
        self.nodes = [node]
        self.inputs = list(dict.fromkeys(node.inputs))
        self.outputs = [Edge(node, 0)]
        self._positions = positions_of(node.inputs, self.inputs)

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    def run(self, inputs: list[Value], step: Step) -> list[Value]:
        """The rows."""
        positions, *parts = (np.asarray(inputs[position]) for position in self._positions)
        joined = np.concatenate(parts)
        # Where XLA takes it without a copy. Places are in bounds: see `RouteRows`.
        rows = aligned.empty((*positions.shape, *joined.shape[1:]), joined.dtype)
        joined.take(positions, axis=0, out=rows, mode="clip")
        return [rows]


def _count_rows(indices: Value, rows: int, padded: bool) -> int | None:
    """How many indices there are before padding; None if one of them names no row."""
    unsigned = _UNSIGNED.get(indices.dtype)
    if not indices.ndim or unsigned is None:
        return None
    count = len(indices)
    if padded:
        # Padding is the largest number of its type, and behind all others.
        count -= int(np.count_nonzero(indices == padding(indices.dtype)))
    named = indices[:count]
    # Negative numbers are the largest of all without a sign.
    if named.size and np.maximum.reduce(named.view(unsigned), axis=None) >= rows:
        return None
    return count


def _whole_rows(array: Value, shape: tuple[int, ...]) -> Value:
    """A view in which each row is one element: NumPy copies those twice as quickly.

    Args:
      array: Rows without gaps.
      shape: What it has of them.
    """
    width = math.prod(array.shape[len(shape) :])
    row = np.dtype((np.void, width * array.itemsize))
    return array.reshape(*shape, width).view(row)[..., 0]


class _Memory:
    """The rows of arrays on this machine's processor, for code that may write there."""

    def __init__(self, row_bytes: int) -> None:
        self._row = np.dtype((np.void, row_bytes))
        #: By address and number; what is kept of an array that is gone is not used before another
        #: is there.
        self._known: dict[tuple[int, int], Any] = {}

    def of(self, value: Value, count: int) -> Value:
        """The memory of an array with so many rows, an element a row, once it has its value."""
        if isinstance(value, np.ndarray):
            return _whole_rows(np.ascontiguousarray(value), (count,))
        value.block_until_ready()
        position = value.unsafe_buffer_pointer(), count
        found = self._known.get(position)
        if found is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            block: Any = (ctypes.c_char * (count * self._row.itemsize)).from_address(position[0])
            found = self._known[position] = np.frombuffer(block, self._row)
        return found
