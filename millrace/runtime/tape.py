"""Nodes as straight-line code: a Python function, made once, of one kernel call per node.

`run_nodes` finds out for each node, in each run, where its inputs are, which keywords its kernel
takes and what may go wrong. A `Tape` finds it out once. Its source has a line or two per node:

    v7 = k7(v3, v5)                                         the kernel with its keywords, bound
    if type(v7) is not A or v7.dtype is not d7: v7 = t7(v7) what NumPy gives for scalars
    del v3                                                  nobody needs it any more

Values are local variables, which go after their last use. Constants, and what follows from them,
are there before the first run. An error says which node failed by the line that raised it, so that
a run in which all goes well pays nothing for it. A node that is not a plain call on NumPy arrays
(a kernel of JAX's functions, a loop, an array of tensors) goes through `kernel_call.call`.

Both a stage on tier 0 (`host_run`) and the functions of datasets (`dataset_function`) run so.
Nothing here knows of shapes: a tape serves all of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Iterable, Sequence
from types import CodeType, TracebackType
from typing import Any, NamedTuple

import numpy as np

from millrace.core import errors
from millrace.core.value import Value
from millrace.graph.constant_value import check_now
from millrace.ops.control_flow.loop_lowering import NotCompilable, Stopped
from millrace.passes.function_body import functions_of
from millrace.passes.node import Edge, Node, is_variable, is_variable_edge, variable_of
from millrace.passes.schedule import writes_state
from millrace.platform import limits
from millrace.runtime import memory
from millrace.runtime.broadcast_sums import BroadcastSum, BroadcastSums, sum_to
from millrace.runtime.concat_cuts import ConcatCuts, cut
from millrace.runtime.joint_updates import JointUpdate, joint_updates
from millrace.runtime.kernel_call import (
    Invoker,
    Services,
    Way,
    call,
    flatten_outputs,
    form_of,
    op_error,
    run_branch,
    run_loop,
    typed,
)
from millrace.runtime.odd_values import ON_COLLECTIONS, TAKING, odd_outputs
from millrace.runtime.resources import ResourceStore
from millrace.runtime.variable_state import StoredState, VariableRef

#: A longer one takes seconds to make: so many nodes run one by one.
MAX_NODES = 20_000
#: Results of constants that are larger are computed in each run.
_MAX_FOLDED_BYTES = 1 << 16
#: Beyond so many elements, as the product of the inputs' sizes, an output's size is worked out:
#: of strings, and of numbers.
_SMALL, _UNASKED = 1 << 20, 1 << 24
#: What a kernel takes besides inputs and attributes, and how a tape writes it.
_SPECIALS = {
    "xp": None,
    "node": None,
    "check": None,
    "rng": "S.key({n})",
    "ctx": "S.ctx",
    "invoke": "Invoker(S, {n})",
    "bind": "S.special('bind', {n}, True)",
}
#: What those kernels take that are run ahead of all steps.
FOLDABLE = frozenset(("xp", "node", "check"))
_NO_STATE = StoredState(ResourceStore())


class Line(NamedTuple):
    """A line of source.

    Attributes:
      text: What it says.
      reads: Local variables that it uses.
      writes: Local variables that it sets.
      node: Whose it is.
      inside: Lines that only run if it says so, and whose they are.
    """

    text: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    node: Node | None
    inside: Sequence[Line] = ()


#: Lines of source, and whose each is.
Text = list[tuple[str, Node | None]]


class Tape:
    """The code of some nodes, for arrays of any shapes.

    Args:
      nodes: In the order in which they run.
      inputs: What comes from outside.
      outputs: What is wanted.
      snapshots: Variables among the outputs, of which the value right after their node is wanted.
      arrays: Positions of inputs that may be no NumPy arrays.
      stacks: Positions of inputs that are Python lists, on which what is pushed is appended and
        from which what is popped is taken away.
      observed: Whether runs tell `begin` of each node and keep all values in `seen`.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        inputs: Sequence[Edge],
        outputs: Sequence[Edge],
        snapshots: frozenset[Edge] = frozenset(),
        arrays: Iterable[int] = (),
        observed: bool = False,
        stacks: frozenset[int] = frozenset(),
    ) -> None:
        writer = Writer(inputs, snapshots, frozenset(arrays), observed, stacks)
        self._make(writer, writer.source(nodes, outputs))

    def _make(self, writer: Writer, text: Text) -> None:
        """Makes the function of what a writer has written."""
        source = "\n".join(line for line, _ in text)
        #: Whose each line is; lines are counted from 1.
        self._nodes = [None, *(node for _, node in text)]
        self._unchecked = writer.unchecked
        code = compile(source, "<tape>", "exec")
        names = writer.names
        exec(code, names)
        # Not left in its own globals: that would be a ring, which only the collector ends.
        self._function: Callable[..., list[Any]] = names.pop("tape")
        self._code: CodeType = self._function.__code__
        self.source = source

    def __call__(
        self,
        values: Sequence[Value],
        services: Services,
        seen: dict[Edge, Value] | None = None,
        begin: Callable[[Node], None] | None = None,
    ) -> list[Value]:
        """Runs the nodes.

        Args:
          values: The inputs: NumPy arrays.
          services: Variables and random keys.
          seen: Is given all values, if the tape is observed.
          begin: Is told of each node before it runs, if the tape is observed.

        Returns:
          The outputs.

        Raises:
          OpError: What a kernel raised, as TensorFlow's class, with the op's name and origin.
        """
        return self._run(values, services, seen, begin)

    def _run(
        self, values: Sequence[Value], services: Services, seen: object, begin: object
    ) -> list[Value]:
        try:
            with np.errstate(all="ignore"):
                return self._function(values, services, services.state, seen, begin)
        except (NotCompilable, Stopped):
            raise
        except Exception as error:
            node = self.node_of(error.__traceback__)
            if node is None:
                raise
            services.failed = node
            said = error
            if node in self._unchecked and not isinstance(error, errors.OpError):
                said = self._in_tensorflows_words(node, error, services)
            found = op_error(node, said)
            if found is error:
                raise
            # What a kernel says on purpose needs no trace of its insides; a surprise does.
            raise found from (error if isinstance(found, errors.InternalError) else None)

    def _in_tensorflows_words(self, node: Node, error: Exception, services: Services) -> Exception:
        """What the node's kernel says of the inputs on which its NumPy function failed."""
        entry = _entry_of(self._code, error.__traceback__)
        assert entry is not None
        values = {**self._function.__globals__, **entry.tb_frame.f_locals}
        try:
            call(node, [values.get(name) for name in self._unchecked[node]], services)
        except errors.OpError as said:
            return said
        return error

    def node_of(self, trace: TracebackType | None) -> Node | None:
        """The node whose line an error came through."""
        found = _entry_of(self._code, trace)
        return None if found is None else self._nodes[found.tb_lineno]


@functools.cache
def _conformer(dtype: np.dtype[np.generic], wanted: Value) -> Callable[[Value], Value]:
    """Makes an array of the declared type of what a kernel gave: mostly it is NumPy's scalar."""
    scalar, array = dtype.type, np.array

    def conform(value: Value) -> Value:
        return array(value) if type(value) is scalar else typed(value, wanted)

    return conform


def block(lines: Sequence[Line], live: Container[str], indent: str = " ") -> Text:
    """Lines one after the other, each followed by the end of what nobody needs any more.

    Args:
      lines: The lines.
      live: Names that are needed behind them.
      indent: What each line begins with.
    """
    last: dict[str, int] = {}
    for i in reversed(range(len(lines))):
        for name in (*lines[i].reads, *lines[i].writes):
            last.setdefault(name, i)
    ends: dict[int, list[str]] = {}
    for name, i in last.items():
        if name[0] in "iv" and name not in live:
            ends.setdefault(i, []).append(name)
    text: Text = []
    for i, line in enumerate(lines):
        text.append((indent + line.text, line.node))
        text += [(f"{indent} {inner.text}", inner.node) for inner in line.inside]
        if i in ends:
            text.append((f"{indent}del {', '.join(ends[i])}", line.node))
    return text


def _entry_of(code: CodeType, trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_code is not code:
        trace = trace.tb_next
    return trace


class Writer:
    """Writes the source of a tape; the arguments are those of `Tape`."""

    def __init__(
        self,
        inputs: Sequence[Edge],
        snapshots: frozenset[Edge],
        arrays: frozenset[int],
        observed: bool,
        stacks: frozenset[int],
    ) -> None:
        self.names: dict[str, Any] = {
            "A": np.ndarray,
            "Invoker": Invoker,
            "VariableRef": VariableRef,
            "call": call,
            "run_branch": run_branch,
            "run_loop": run_loop,
            "cut": cut,
            "check_strings": memory.check_strings,
            "sum_to": sum_to,
        }
        self._lines: list[Line] = []
        self._snapshots = snapshots
        self._observed = observed
        #: What each value is called: a local variable, or a constant's name.
        self._name: dict[Edge, str] = {}
        self._known: dict[Edge, Any] = {}
        #: Values that may be no NumPy arrays.
        self._odd: set[Edge] = set()
        #: Variables: the local variable that has the value right now.
        self._read: dict[Node, str] = {}
        #: Nodes that check less than their kernels do, with the names of their inputs.
        self.unchecked: dict[Node, list[str]] = {}
        self._refs: dict[Node, str] = {}
        self._ref_count = 0
        self._inputs = [f"i{i}" for i in range(len(inputs))]
        for position, (edge, name) in enumerate(zip(inputs, self._inputs, strict=True)):
            self._name[edge] = name
            if position in arrays:
                self._odd.add(edge)
        #: Arrays that change in place, and where they were changed last.
        self._owned: set[Edge] = set()
        #: Lists that change in place.
        self._stacks = {edge for i, edge in enumerate(inputs) if i in stacks}
        self._sums = BroadcastSums((), ())
        self._cuts = ConcatCuts((), ())
        #: Updates that are made together, by the last of them.
        self._joint: dict[Node, JointUpdate] = {}

    # -- The source ------------------------------------------------------------------------

    def source(self, nodes: Sequence[Node], outputs: Sequence[Edge]) -> Text:
        """The lines of the function that runs the nodes and returns the outputs."""
        if not self._observed:  # Who observes wants all values.
            self._look_for_patterns(nodes, outputs)
            self._joint = joint_updates(nodes, self._snapshots)
        for number, node in enumerate(nodes):
            joint = self._joint.get(node)
            if joint is None:
                self._add(node, f"{number}")
            elif node is joint.nodes[-1]:
                self._add_joint(joint, f"{number}")
        results = [self._value(edge) for edge in outputs]
        returned: Text = [(f" return [{', '.join(results)}]", None)]
        return self._head() + block(self._lines, set(results)) + returned

    def _look_for_patterns(self, nodes: Sequence[Node], wanted: Sequence[Edge]) -> None:
        """Finds nodes that are made in one call."""
        self._sums = BroadcastSums(nodes, wanted)
        self._cuts = ConcatCuts(nodes, wanted)

    def _head(self) -> Text:
        """The first lines: the inputs and the variables get their names."""
        text: Text = [("def tape(inputs, S, state, seen, begin):", None)]
        if self._inputs:
            text.append((f" {', '.join(self._inputs)}, = inputs", None))
        for variable, name in self._refs.items():
            text.append((f" {name} = VariableRef(state, {self._global(variable)})", variable))
        return text

    def _put(
        self, text: str, node: Node | None, reads: Sequence[str] = (), writes: Sequence[str] = ()
    ) -> None:
        self._lines.append(Line(text, tuple(reads), tuple(writes), node))

    def _global(self, value: Value, prefix: str = "g") -> str:
        """The name of something that does not change from run to run."""
        name = f"{prefix}{id(value)}"
        self.names[name] = value
        return name

    # -- Values ----------------------------------------------------------------------------

    def _value(self, edge: Edge) -> str:
        """The name of a value."""
        found = self._name.get(edge)
        if found is None:
            if edge.node.type != "Const":
                raise KeyError(f"{edge.name} is neither made nor given")
            found = self._constant(edge, edge.node.attrs["value"])
        return found

    def _constant(self, edge: Edge, value: Value) -> str:
        self._known[edge] = value
        name = self._name[edge] = self._global(value)
        return name

    def _ref(self, variable: Node) -> str:
        found = self._refs.get(variable)
        if found is None:
            self._ref_count += 1
            found = self._refs[variable] = f"V{self._ref_count}"
        return found

    def _current(self, variable: Node, node: Node, number: str) -> str:
        """The local variable that has a variable's value as it is now."""
        found = self._read.get(variable)
        if found is None:
            found = self._read[variable] = f"vr{number}_{len(self._read)}"
            self._put(f"{found} = state.read({self._global(variable)})", node, (), (found,))
        return found

    def _input(self, node: Node, way: Value, number: str) -> str:
        kind, edge, known = way
        if kind == Way.READ:
            return self._current(known, node, number)
        if kind == Way.REFERENCE:
            return self._ref(known)
        if kind == Way.ARRAY:
            return self._name.get(edge, "None")
        return self._value(edge)

    # -- Nodes -----------------------------------------------------------------------------

    def _add(self, node: Node, number: str) -> None:
        form = form_of(node)
        if node.type == "Const":
            self._value(Edge(node, 0))
            return
        if form.is_variable or (is_variable(node) and node.type != "TemporaryVariable"):
            self._snapshot(node, number)
            return
        if self._observed:
            self._put(f"begin({self._global(node)})", node)
        if self._fold(node) or self._sums.replaces(node) or self._cuts.replaces(node):
            return
        fused = self._sums.of(node)
        if fused is not None:
            self._add_sum(node, number, fused)
            return
        part = self._cuts.of(node)
        if part is not None:
            names = [self._value(part.whole), *map(self._value, part.shapes)]
            (result,) = self._results(node, number)
            text = f"{result} = cut({names[0]}, {part.axis}, {', '.join(names[1:])})"
            self._put(text, node, names, (result,))
            return
        names = [self._input(node, way, number) for way in form.inputs]
        edges = [way[1] for way in form.inputs]
        is_odd = any(edge in self._odd for edge in edges) or any(
            way[0] in (Way.CHOSEN, Way.SEVERAL) for way in form.inputs
        )
        if form.hands_on and (not is_odd or self._is_collection(edges[0])):
            self._name[form.edges[0]] = names[0]
            if is_odd:
                self._odd.add(form.edges[0])
            if edges[0] in self._owned:
                self._owned.add(form.edges[0])
            self._note(node)
            return
        if writes_state(node):
            # A node that writes is the only one that others must be able to name.
            self._put(f"state.current = {self._global(node)}", node)
        if edges and edges[0] in self._stacks:
            self._change_stack(node, number, names)
        elif self._owned and self._change_owned(node, number, names):
            pass
        elif node.type in ON_COLLECTIONS:
            self._call_on_collection(node, form, number, names)
        elif not is_odd and self._is_plain(node):
            self._call(node, form, number, names)
        else:
            self._call_anyhow(node, form, number, names, edges)
        if writes_state(node) or functions_of(node):
            for edge in node.inputs:
                variable = variable_of(edge) if is_variable_edge(edge) else None
                if variable is not None:
                    self._read.pop(variable, None)
            if functions_of(node):
                self._read.clear()
        self._snapshot(node, number)
        self._note(node)

    def _is_collection(self, edge: Edge) -> bool:
        """Whether what may be no array is a value all the same: several tensors, or none."""
        return edge.dtype.name not in ("resource", "variant") and not edge.dtype._is_ref_dtype

    def _is_plain(self, node: Node) -> bool:
        """Whether the kernel takes and gives NumPy arrays."""
        definition = node.definition
        return (
            (definition.runs_on_numpy if definition.is_pure else definition.kind == "host")
            and all(special in _SPECIALS for special in definition.specials)
            and not functions_of(node)
            and not any(dtype.name == "variant" for dtype in node.output_types)
        )

    def _fold(self, node: Node) -> bool:
        """Computes a node of constants; false if it has to run."""
        definition = node.definition
        if not definition.is_foldable or writes_state(node) or not node.output_types:
            return False
        if not FOLDABLE.issuperset(definition.specials):
            return False
        for edge in node.inputs:
            if edge in self._name and edge not in self._known:
                return False
            if edge not in self._known and edge.node.type != "Const":
                return False
        known = [self._known.get(e, e.node.attrs.get("value")) for e in node.inputs]
        try:
            found = call(node, known, Services(_NO_STATE))
        except errors.OpError:
            return False  # It is to fail when it runs.
        if any(
            type(v) is not np.ndarray or v.dtype.hasobject or v.nbytes > _MAX_FOLDED_BYTES
            for v in found
        ):
            return False
        for i, value in enumerate(found):
            self._constant(Edge(node, i), value)
        return True

    def _snapshot(self, node: Node, number: str) -> None:
        for i in range(len(node.output_types)):
            edge = Edge(node, i)
            if edge in self._snapshots:
                variable = variable_of(edge)
                assert variable is not None
                self._name[edge] = self._current(variable, node, number)

    def _note(self, node: Node) -> None:
        if self._observed:
            for i in range(len(node.output_types)):
                edge = Edge(node, i)
                name = self._name.get(edge)
                if name is not None:
                    self._put(f"seen[{self._global(edge)}] = {name}", node, (name,))

    # -- Calls -----------------------------------------------------------------------------

    def _results(self, node: Node, number: str) -> list[str]:
        """Names for the outputs that are values; underscores for variables."""
        names = []
        for i in range(len(node.output_types)):
            edge = Edge(node, i)
            if is_variable_edge(edge):
                names.append("_")
            else:
                names.append(f"v{number}_{i}" if i else f"v{number}")
                self._name[edge] = names[-1]
        return names

    def _call(self, node: Node, form: Value, number: str, names: list[str]) -> None:
        """One call of a kernel whose keywords are bound."""
        definition = node.definition
        self._ask_for_memory(node, form, names)
        bound = {**form.keywords}
        later = []
        for special in definition.specials:
            if special == "xp":
                bound["xp"] = np
            elif special == "node":
                bound["node"] = node
            elif special == "check":
                bound["check"] = check_now
            else:
                written = _SPECIALS[special]
                assert written is not None
                later.append(f"{special}={written.format(n=self._global(node))}")
        kernel = definition.host_kernel(node, [self._known.get(way[1]) for way in form.inputs])
        if kernel is not None:
            self.unchecked[node] = names
        elif bound:
            kernel = functools.partial(definition.kernel, **bound)
        else:
            kernel = definition.kernel
        self.names[f"k{number}"] = kernel
        arguments = [
            f"[{', '.join(names[position])}]" if isinstance(position, slice) else names[position]
            for position in form.input_slices
        ]
        text = f"k{number}({', '.join([*arguments, *later])})"
        results = self._results(node, number)
        values = [name for name in results if name != "_"]
        if not values:
            self._put(text, node, names)
            return
        positions = form.output_slices
        if len(positions) == 1 and not isinstance(positions[0], slice):
            self._put(f"{results[0]} = {text}", node, names, values)
        elif len(positions) == 1 or not any(isinstance(position, slice) for position in positions):
            self._put(f"{', '.join(results)}, = {text}", node, names, values)
        else:
            self.names[f"f{number}"] = functools.partial(flatten_outputs, node)
            self._put(f"{', '.join(results)}, = f{number}({text})", node, names, values)
        for name, wanted in zip(results, form.output_types, strict=True):
            if name != "_":
                self._conform(node, name, wanted)
        if None in form.output_types:
            self._put(f"check_strings(({', '.join(values)},))", node, values)

    def _conform(self, node: Node, name: str, wanted: Value) -> None:
        """Makes an array of the declared type of what a kernel gave, unless it is one."""
        dtype = np.dtype(object) if wanted is None else wanted
        held = f"d{dtype.num}" if dtype.isbuiltin == 1 else self._global(dtype)
        self.names[held] = dtype
        self.names[f"t{held}"] = _conformer(dtype, wanted)
        self._put(
            f"if type({name}) is not A or {name}.dtype is not {held}: {name} = t{held}({name})",
            node,
            (name,),
            (name,),
        )

    def _ask_for_memory(self, node: Node, form: Value, names: list[str]) -> None:
        """Refuses to make what cannot fit; asks nothing where the sizes of the inputs tell."""
        if not form.may_grow:
            return
        sized = [
            name
            for name, way in zip(names, form.inputs, strict=True)
            if way[0] in (Way.VALUE, Way.READ)
        ]
        name = self._global(memory.asker(node, form.deciding, form.fitting), "m")
        asks = f"{name}({', '.join(names)})"
        constant = 1
        for edge_name, way in zip(names, form.inputs, strict=True):
            if way[0] == Way.CONSTANT or way[1] in self._known:
                constant *= max(1, int(np.size(self._known.get(way[1], 1))))
                if edge_name in sized:
                    sized.remove(edge_name)
        if form.deciding and not all(form.inputs[i][1] in self._known for i in form.deciding):
            self._put(asks, node, names)
            return
        if form.deciding:
            constant *= memory.largest_product(
                [self._known[form.inputs[i][1]] for i in form.deciding]
            )
        if not sized:
            if constant > _SMALL:
                self._put(asks, node, names)
            return
        most = min(_UNASKED, limits.MEMORY_BYTES.value // memory.ELEMENT_BYTES)
        if None in form.output_types:
            most = _SMALL
        exact = memory.size_test(node, names, most)
        if exact is not None and not (form.deciding and constant > 1):
            self._put(f"if {exact}: {asks}", node, names)
            return
        test = " * ".join(f"{name}.size" for name in sized)
        if len(sized) == 2 and hasattr(node.definition.kernel, "broadcasts"):
            test = f"{sized[0]}.shape != {sized[1]}.shape and {test}"
        self._put(f"if {test} > {max(1, most // constant)}: {asks}", node, names)

    def _change_stack(self, node: Node, number: str, names: list[str]) -> None:
        """A push to a list that changes in place, or a pop from it."""
        stack = names[0]
        self._name[Edge(node, 0)] = stack
        if node.type == "TensorListPushBack":
            self._put(f"{stack}.append({names[1]})", node, names[:2])
            return
        value = self._name[Edge(node, 1)] = f"v{number}"
        self._put(f"{value} = {stack}.pop()", node, names[:1], (value,))
        if node.output_types[1].name == "variant":
            self._odd.add(Edge(node, 1))

    def _change_owned(self, node: Node, number: str, names: list[str]) -> bool:
        """A write to an array that changes in place; false if it is none."""
        if node.type == "TensorArrayWriteV3" and node.inputs[3] in self._owned:
            handle, index, value, array = names
            if handle != "None":
                return False
            grows = bool(node.inputs[0].node.attrs.get("dynamic_size", False))
        elif node.type == "_AddToElement" and node.inputs[0] in self._owned:
            array, index, value = names
            grows = True
        else:
            return False
        after = Edge(node, 0)
        self._name[after] = array
        self._owned.add(after)
        self._odd.add(after)
        self._put(f"{array}.put({index}, {value}, {grows})", node, (array, index, value))
        return True

    def _call_on_collection(self, node: Node, form: Value, number: str, names: list[str]) -> None:
        """A call of a kernel that takes or gives an array or list of tensors."""
        given = {"xp": np, "node": node, "check": check_now}
        bound = {**form.keywords, **{k: given[k] for k in node.definition.specials}}
        known = [self._known.get(way[1]) for way in form.inputs]
        kernel = node.definition.host_kernel(node, known)
        self.names[f"k{number}"] = kernel or functools.partial(node.definition.kernel, **bound)
        results = self._results(node, number)
        text = f"k{number}({', '.join(names)})"
        self._put(f"{', '.join(results)} = {text}", node, names, results)
        gives_flow = node.type not in TAKING
        for name, edge, wanted in zip(results, form.edges, form.output_types, strict=True):
            if not gives_flow and edge.dtype.name != "variant":
                self._conform(node, name, wanted)  # An element of a vector is no array.
        self._odd.update(e for e in form.edges if gives_flow or e.dtype.name == "variant")

    def _call_anyhow(
        self, node: Node, form: Value, number: str, names: list[str], edges: Sequence[Edge]
    ) -> None:
        """A call by `kernel_call.call`, which takes and gives everything."""
        results = self._results(node, number)
        by = {"While": "run_loop", "StatelessWhile": "run_loop", "If": "run_branch"}
        text = f"{by.get(node.type, 'call')}({self._global(node)}, [{', '.join(names)}], S)"
        if not results:
            self._put(text, node, names)
            return
        values = [name for name in results if name != "_"]
        self._put(f"{', '.join(results)}, = {text}", node, names, values)
        self._odd.update(odd_outputs(node, self._odd))

    def _add_joint(self, joint: JointUpdate, number: str) -> None:
        """Updates made as one; if they cannot be, each by itself."""
        last = joint.nodes[-1]
        ways = form_of(last).inputs
        hyper = [self._input(last, ways[position], number) for position in joint.hyper]
        gradients = [self._value(edge) for edge in joint.gradients]
        lines, self._lines = self._lines, []
        refs, self._refs = self._refs, dict(self._refs)
        current = dict(self._read)
        for i, node in enumerate(joint.nodes):
            self._add(node, f"{number}_{i}")
        new = [(v, name) for v, name in self._refs.items() if v not in refs]
        inside = [
            Line(f"{name} = VariableRef(state, {self._global(v)})", (), (), v) for v, name in new
        ]
        inside += self._lines
        self._lines, self._refs = lines, refs
        self._read = {v: name for v, name in current.items() if v not in joint.variables}
        name = self._global(joint)
        text = f"if not {name}.apply(state, [{', '.join(gradients)}], [{', '.join(hyper)}]):"
        own = {name for line in inside for name in line.writes}
        reads = {*gradients, *hyper, *(name for line in inside for name in line.reads)} - own
        self._lines.append(Line(text, tuple(sorted(reads)), (), last, inside))

    def _add_sum(self, node: Node, number: str, fused: BroadcastSum) -> None:
        """A gradient that is summed to the shape of an operand that was broadcast."""
        gradient = self._value(fused.gradient)
        reads, shapes = [gradient], []
        for operand in fused.operands:
            edge, is_shape = self._sums.shape_of(operand)
            name = self._value(edge)
            reads.append(name)
            if edge in self._known:
                value = self._known[edge]
                sizes = tuple(value.tolist()) if is_shape else value.shape
                shapes.append(self._global(sizes))
            else:
                shapes.append(name if is_shape else f"{name}.shape")
        total = f"sum_to({gradient}, {shapes[0]}, {shapes[1]}, {fused.position})"
        own = shapes[fused.position]
        if own in reads:  # It is an array of sizes.
            own = f"tuple({own}.tolist())"
        total = f"{gradient} if {gradient}.shape == {own} else {total}"
        result = self._results(node, number)
        self._put(f"{result[0]} = {total}", node, reads, result)
