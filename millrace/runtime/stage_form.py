"""What a stage of pure nodes takes, holds and gives: the same on both tiers."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from millrace.core.convert import is_filled
from millrace.core.value import Value
from millrace.passes.function_body import (
    LOOPS,
    bodies_of,
    forward_type,
    is_random,
    length_inputs,
)
from millrace.passes.node import Edge, Node, is_variable_edge, variable_of
from millrace.passes.schedule import SHAPE_QUERIES, is_folded, static_positions
from millrace.runtime import guarded_writes, host_integers, trace_time_results
from millrace.runtime.plain_update import is_plain_update
from millrace.runtime.variable_use import VariableUse

#: Larger constants are passed as inputs instead of being compiled into the program.
MAX_EMBEDDED_BYTES = 1 << 16


class StageForm:
    """The nodes of a stage with their inputs, outputs and variables.

    Attributes:
      inputs: Values from outside, in the order of the call's arguments.
      static: Positions of inputs whose values decide a shape: they join a program's key.
      dynamic: Positions of the others.
      owned: Inputs whose memory nobody else has: a variable that is assigned one takes it over.
      kept: Variables that are only read.
      donated: Variables that are read and written.
      written: Variables that are written: first `donated`, then those that are not read.
      copies: Where the outputs are nothing but variables: which of `kept` each of them is.
      filled: Large constants of one value, which a program makes itself.
      snapshots: Outputs that are variables, whose values right after their node are wanted.
      writes: Who writes, and who comes after them.
      random_nodes: Nodes that draw random numbers.
      is_little: Whether it only computes with whole numbers and truth values, without state.
      in_one_pass: Whether it is an update that a program makes in one pass through memory.
      has_loops: Whether a loop is in it, which looks whether its step is cancelled.
      host_nodes: Those of its nodes that no program can have.
      is_one_program: Whether all of it may be one program.
    """

    def __init__(
        self,
        nodes: list[Node],
        outputs: list[Edge],
        name: str,
        owned: frozenset[Edge],
        host_nodes: Collection[Node] = (),
    ) -> None:
        self.nodes = nodes
        self.host_nodes = frozenset(host_nodes)
        self.outputs = outputs
        self.name = name
        self.owned = owned
        self.snapshots = frozenset(edge for edge in outputs if is_variable_edge(edge))
        use = VariableUse(nodes, self.snapshots)
        self.variables = use
        self.has_checks = any("check" in node.definition.specials for node in nodes)
        self.copies = None if self.has_checks else _variables_copied(outputs, use)
        self.donated = [v for v in use.read if v in set(use.written)]
        self.kept = [v for v in use.read if v not in set(use.written)]
        # JAX pairs donated buffers with results of the same shape in their order: were it not
        # the same for both, XLA would copy one variable into the other's buffer.
        self.written = self.donated + [v for v in use.written if v not in set(self.donated)]
        inside = set(nodes)
        inputs: dict[Edge, None] = {}
        for node in nodes:
            for edge in node.inputs:
                if edge.node in inside or is_variable_edge(edge) or is_embedded(edge):
                    continue
                inputs[edge] = None
        static = _static_edges(nodes)
        self.filled = [
            edge
            for edge in dict.fromkeys(edge for node in nodes for edge in node.inputs)
            if edge.node.type == "Const"
            and edge not in static
            and is_filled(edge.node.attrs["value"])
            and edge.node.attrs["value"].nbytes > trace_time_results.LARGEST_CONSTANT
        ]
        self.inputs = list(inputs)
        self.static = [i for i, edge in enumerate(self.inputs) if edge in static]
        self.dynamic = [i for i, edge in enumerate(self.inputs) if edge not in static]
        self.writes = guarded_writes.Writes(nodes)
        self.random_nodes = [n for n in nodes if is_random(n)]
        self.is_empty = not (outputs or use.written or self.has_checks or self.host_nodes)
        self.is_little = not (use.read or use.written) and host_integers.are_host_integers(nodes)
        self.in_one_pass = is_plain_update(nodes)
        self.has_loops = _has_loops(nodes)
        self.is_one_program = not self.host_nodes and not decided_inside(nodes)

    def static_key(self, inputs: list[Value]) -> tuple[tuple[tuple[int, ...], str, bytes], ...]:
        """What the values that decide shapes are, in a form that can be compared."""
        values = (np.asarray(inputs[i]) for i in self.static)
        return tuple((value.shape, value.dtype.str, value.tobytes()) for value in values)

    def is_owned(self, position: int) -> bool:
        """Whether the input at a position among `dynamic` is nobody else's."""
        return self.inputs[self.dynamic[position]] in self.owned


def decided_inside(nodes: list[Node]) -> set[Edge]:
    """Values made by some of the nodes that decide shapes in others: they must be there first."""
    inside = set(nodes)
    folded: dict[Edge, bool] = {}
    return {
        edge
        for node in nodes
        for i in static_positions(node)
        if (edge := node.inputs[i]).node in inside and not is_folded(edge, folded)
    }


def _has_loops(nodes: list[Node]) -> bool:
    return any(
        forward_type(node) in LOOPS or any(_has_loops(body.nodes) for body in bodies_of(node))
        for node in nodes
    )


def is_embedded(edge: Edge) -> bool:
    """Whether a value is a constant that goes into programs."""
    if edge.node.type != "Const":
        return False
    value = edge.node.attrs["value"]
    return bool(value.nbytes <= MAX_EMBEDDED_BYTES or is_filled(value))


def _variables_copied(outputs: list[Edge], use: VariableUse) -> list[int] | None:
    """Where only values of variables are wanted: which of those read each output is."""
    if use.written or not outputs:
        return None
    found = [variable_of(edge) if is_variable_edge(edge) else None for edge in outputs]
    if any(edge.dtype.name == "resource" for edge in outputs):
        return None
    places = {variable: i for i, variable in enumerate(use.read)}
    if any(variable not in places for variable in found):
        return None
    return [places[variable] for variable in found if variable is not None]


def _static_edges(nodes: list[Node]) -> set[Edge]:
    """Edges whose values must be known while the stage is traced.

    A static input that is computed inside the stage folds, and what it is computed from must
    be known in turn, back to the values that come from outside.
    """
    inside = set(nodes)
    wanted = [node.inputs[i] for node in nodes for i in static_positions(node)]
    for node in nodes:
        wanted.extend(length_inputs(node) or ())
    static: set[Edge] = set()
    while wanted:
        edge = wanted.pop()
        if edge not in static:
            static.add(edge)
            if edge.node not in inside or edge.node.type in SHAPE_QUERIES:
                continue
            deciding = length_inputs(edge.node)  # Of a loop only its length is asked for.
            wanted.extend(edge.node.inputs if deciding is None else deciding)
    return static
