"""Calling kernels: arguments in, outputs out, errors that name the op.

`run_nodes` serves three uses with one loop: tracing a stage for XLA, running it op by op,
and running pure kernels on the host (strings).
"""

from __future__ import annotations

import contextlib
import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from millrace.compiler.xla import jax, jnp, lax
from millrace.core import errors
from millrace.core.dead import DEAD
from millrace.core.value import Context, Value
from millrace.graph.constant_value import check_now
from millrace.graph.function import Function
from millrace.graph.registry import NO_GRADIENT, OpDefinition
from millrace.ops.control_flow.loop_lowering import NotCompilable, Stopped, check_not_stopped
from millrace.ops.control_flow.tensor_array_value import elementwise, in_program
from millrace.ops.control_flow.tensor_list_value import Collection
from millrace.ops.random import philox
from millrace.passes.function_body import body_of, deciding_positions, functions_of, slice_of
from millrace.passes.node import (
    Edge,
    Node,
    is_array_handle,
    is_variable_edge,
    names_variable,
    variable_of,
)
from millrace.runtime import body_gradients, memory, traced_kernel
from millrace.runtime.traced_kernel import TracedKernel
from millrace.runtime.variable_state import (
    StoredState,
    VariableRef,
    VariableState,
    uninitialized,
    variable_key,
)

__all__ = [
    "Invoker",
    "Services",
    "StoredState",
    "VariableRef",
    "VariableState",
    "Way",
    "call",
    "call_plainly",
    "flatten_outputs",
    "form_of",
    "gather_inputs",
    "op_error",
    "reference_positions",
    "run_branch",
    "run_loop",
    "run_nodes",
    "typed",
    "uninitialized",
    "variable_key",
]


#: Ops that differentiate the bodies that they call.
_DIFFERENTIATING = frozenset(("VectorJacobianProduct", "SymbolicGradient"))


class Services:
    """What kernels may ask for besides their inputs; see `registry.SPECIAL_PARAMETERS`."""

    def __init__(
        self,
        state: VariableState,
        rng: Callable[[Node], Value] | None = None,
        check: Callable[[Node], Callable[..., None]] | None = None,
        ctx: Context = None,
        traced: bool = False,
        bind: Callable[[Node], Value] | None = None,
        in_body: bool = False,
        differentiated: bool = False,
    ) -> None:
        self.state = state
        #: Whether JAX differentiates what the nodes compute, as one.
        self.differentiated = differentiated
        #: Whether the nodes are those of a conditional's or loop's body.
        self.in_body = in_body
        #: Whether variables read as values inside an XLA program.
        self.traced = traced
        self._rng = rng
        self._check = check
        self.ctx = ctx
        self._bind = bind
        #: The node that has failed, once one has.
        self.failed: Node | None = None

    def special(self, name: str, node: Node, on_host: bool) -> Value:
        """The value for a special parameter of the node's kernel."""
        if name == "xp":
            return np if on_host else jnp
        if name == "node":
            return node
        if name == "variable":
            return VariableRef(self.state, node)
        if name == "invoke":
            return Invoker(self, node)
        if name == "ctx":
            return self.ctx
        if name == "check":
            # A kernel of jnp functions makes traced values even of host arrays.
            return check_now if self._check is None else self._check(node)
        if name == "rng":
            return self.key(node)
        if name == "bind":
            if self._bind is None:
                raise errors.UnimplementedError(
                    None, node.source, f"{node.name}: no dataset can be made inside a v1 loop"
                )
            return self._bind(node)
        raise AssertionError(name)

    def key(self, node: Node) -> Value:
        """The node's random key; None where nothing may be drawn."""
        return None if self._rng is None else self._rng(node)

    def run_gradient(self, nodes: Iterable[Node], env: dict[Edge, Value]) -> None:
        """Runs the nodes of an op's gradient: checks that hold for the op hold for them."""
        services = Services(
            self.state,
            check=lambda _: lambda *_: None,
            ctx=self.ctx,
            traced=True,
            in_body=True,
            differentiated=True,
        )
        run_nodes(nodes, env, services)

    def tracing(self, node: Node) -> traced_kernel.TracedCall:
        """Calls the node's kernel inside a trace."""

        def traced(
            inputs: list[Value], state: VariableState, key: Value, check: Callable[..., None]
        ) -> list[Value]:
            services = Services(
                state, rng=lambda _: key, check=lambda _: check, ctx=self.ctx, traced=True
            )
            return call(node, inputs, services)

        return traced


def key_number(node: Node) -> int:
    """The number by which a random op in a body derives its key from the body's."""
    seeds = f"{node.name} {node.attrs.get('seed', 0)} {node.attrs.get('seed2', 0)}"
    return zlib.crc32(seeds.encode())


#: What makes bodies and loops on the host ready; see `body_tape`.
_host_bodies: tuple[Callable[..., Any], Callable[..., Any]] | None = None


def register_host_bodies(prepare: Callable[..., Value], prepare_loop: Callable[..., Value]) -> None:
    """Registers what makes bodies and loops on the host ready."""
    global _host_bodies
    _host_bodies = prepare, prepare_loop


class _Overridden:
    """Variables of which some read as other values: those that are differentiated."""

    def __init__(self, state: VariableState, values: dict[Node, Value]) -> None:
        self._state = state
        self._values = values

    def read(self, variable: Node) -> Value:
        if variable in self._values:
            return self._values[variable]
        return self._state.read(variable)

    def write(self, variable: Node, value: Value) -> None:
        self._state.write(variable, value)

    def write_rows(self, variable: Node, rows: Value, values: Value) -> None:
        self._state.write_rows(variable, rows, values)

    def add_rows(self, variable: Node, rows: Value, values: Value) -> None:
        self._state.add_rows(variable, rows, values)

    def change(self, variables: Sequence[Node], change: Callable[[list[Value]], None]) -> None:
        self._state.change(variables, change)


class Invoker:
    """Runs the bodies of the functions that `node` calls, in place."""

    def __init__(
        self, services: Services, node: Node, overrides: dict[Node, Value] | None = None
    ) -> None:
        self._services = services
        self._node = node
        self._overrides = overrides
        self._complaints: list[str] = []

    @property
    def traced(self) -> bool:
        """Whether bodies run inside a program that is being traced."""
        return self._services.traced

    def complaint(self) -> str:
        """What to say when a check inside did not hold."""
        return "; ".join(dict.fromkeys(self._complaints)) or "A check inside failed"

    def overriding(self, overrides: dict[Node, Value]) -> Invoker:
        """The same, but inside, these variables read as the given values."""
        return Invoker(self._services, self._node, overrides)

    def deciding_positions(self, condition: Function, body: Function) -> set[int] | None:
        """See `function_body.deciding_positions`."""
        return deciding_positions(body_of(self._node, condition), body_of(self._node, body))

    def prepared(self, function: Function, args: list[Value]) -> Value:
        """A body on the host, ready to be called with such arguments; None inside a trace."""
        if _host_bodies is None or not self._runs_on_host(args):
            return None
        return _host_bodies[0](self._services, self._node, function, args)

    def prepared_loop(self, condition: Function, body: Function, values: list[Value]) -> Value:
        """A loop on the host, ready to run; None inside a trace."""
        if _host_bodies is None or not self._runs_on_host(values):
            return None
        return _host_bodies[1](self._services, self._node, condition, body, values)

    def _runs_on_host(self, args: list[Value]) -> bool:
        if self._services.traced or self._overrides:
            return False
        return not any(type(value) is not np.ndarray and in_program(value) for value in args)

    def __call__(
        self,
        function: Function,
        args: list[Value],
        key: Value = None,
        only: list[int] | None = None,
        controls: bool = True,
    ) -> tuple[list[Value], Value]:
        """Runs one body.

        Args:
          function: The function.
          args: Values of its arguments.
          key: A random key that all random ops inside derive theirs from.
          only: Positions of the outputs that are wanted; None for all.
          controls: Whether what only has to happen before these is run too.

        Returns:
          The outputs (None for those not wanted), and whether all checks inside hold.
        """
        if only is None and controls:
            ready = self.prepared(function, args)
            if ready is not None:
                return ready(args, key), True
        program = body_of(self._node, function)
        env: dict[Edge, Any] = dict(zip(program.arguments, args, strict=True))
        holds: list[Any] = []

        traced = self._services.traced

        def check_for(inner: Node) -> Callable[..., None]:
            def check(ok: Value, message: Value, *values: Value) -> None:
                if isinstance(ok, jax.Array) or (traced and not np.all(ok)):
                    # Inside a branch that may not be taken, only the run can tell.
                    holds.append(jnp.all(ok))
                    self._complaints.append(_complaint(inner, message, values))
                else:
                    check_now(ok, message, *values)

            return check

        def key_of(inner: Node) -> Value:
            if key is None:
                return None
            return philox.fold_in(key, key_number(inner))

        services = self._services
        state: VariableState = services.state
        if self._overrides:
            state = _Overridden(state, self._overrides)
        inner_services = Services(
            state,
            rng=key_of,
            check=check_for,
            ctx=services.ctx,
            traced=services.traced,
            in_body=True,
            differentiated=services.differentiated or self._node.type in _DIFFERENTIATING,
        )
        nodes = program.nodes
        wanted = range(len(program.results)) if only is None else only
        if only is not None:
            nodes = slice_of(program, [program.results[i] for i in only], controls)
        run_nodes(nodes, env, inner_services)
        outputs: list[Any] = [None] * len(program.results)
        for i in wanted:
            outputs[i] = result_of(program.results[i], env, state)
        return outputs, (jnp.all(jnp.stack(holds)) if holds else True)


def _complaint(node: Node, message: Value, values: tuple[Value, ...]) -> str:
    if not callable(message):
        return str(message)
    if any(isinstance(value, jax.core.Tracer) for value in values):
        return f"A check of {node.name} ({node.type}) did not hold"
    return str(message(*values))


def result_of(edge: Edge, env: dict[Edge, Value], state: VariableState) -> Value:
    """What a body returns for an edge: a value, or a variable that it hands on."""
    if edge in env:
        return env[edge]
    if edge.node.type == "Const":
        return edge.node.attrs["value"]
    if is_array_handle(edge):
        return None
    variable = variable_of(edge)
    assert variable is not None, edge
    ref = VariableRef(state, variable)
    return ref if names_variable(edge) else ref.read()


class _Form:
    """How a node's kernel is called: what does not change from run to run, worked out once.

    Attributes:
      inputs: For each input: how to get it, its edge, and what that way needs.
      input_slices: Where each argument stands among the inputs; also `output_slices`.
      keywords: The attributes that the kernel takes.
      deciding: Positions of inputs whose numbers may decide how large an output is.
      output_types: For each output the NumPy type, or None for objects.
      edges: The outputs as edges.
      is_variable: Whether it only hands a variable on, which is read where it is used.
      host_keywords: All that the kernel takes besides its inputs to run on NumPy; None if that
        differs from run to run, or if it cannot.
      is_plain: Whether each argument is one input.
      may_grow: Whether an output can be larger than all inputs.
      only_type: The type of the only output, if it has one and no objects are in it.
      hands_on: Whether its output is its input.
      fitting: For what sizes of inputs the outputs are known to fit into memory.
    """

    __slots__ = (
        "deciding",
        "edges",
        "fitting",
        "hands_on",
        "host_keywords",
        "input_slices",
        "inputs",
        "is_plain",
        "is_variable",
        "keywords",
        "may_grow",
        "only_type",
        "output_slices",
        "output_types",
        "tapes",
        "traced",
    )

    def __init__(self, node: Node) -> None:
        definition = node.definition
        self.inputs = _input_ways(node)
        #: The code of its functions on the host; see `body_tape`.
        self.tapes: dict[Any, Any] = {}
        self.deciding = memory.deciding_inputs(node)
        self.input_slices = definition.signature.input_slices(node.attrs)
        self.output_slices = definition.signature.output_slices(node.attrs)
        self.keywords = {name: node.attrs[name] for name in definition.kernel_attrs}
        self.output_types = [
            None
            if dtype.base_dtype.name in ("resource", "variant", "string")
            else np.dtype(dtype.base_dtype.as_numpy_dtype)
            for dtype in node.output_types
        ]
        #: Runs a kernel of JAX's functions on NumPy; None if it can do so itself.
        self.traced = TracedKernel(node) if traced_kernel.applies(node) else None
        self.edges = [Edge(node, i) for i in range(len(node.output_types))]
        self.is_variable = node.type == "Identity" and is_variable_edge(self.edges[0])
        self.hands_on = node.type in _HANDING_ON
        self.fitting = memory.Fitting()
        self.may_grow = memory.may_grow(node)
        self.is_plain = not any(isinstance(position, slice) for position in self.input_slices)
        only = len(self.output_slices) == 1 and not isinstance(self.output_slices[0], slice)
        self.only_type = self.output_types[0] if only else None
        self.host_keywords: dict[str, Any] | None = None
        given = {"xp": np, "node": node, "check": check_now}
        if definition.kind == "pure" and definition.runs_on_numpy:
            specials = definition.specials
            if all(special in given for special in specials):
                self.host_keywords = {**self.keywords, **{k: given[k] for k in specials}}


#: Ops that do nothing when a step runs.
_HANDING_ON = frozenset(("Identity", "StopGradient", "PreventGradient"))


class Way:
    """Ways to get an input: the value of its edge; a variable or a handle of an array; a constant.

    Plain numbers: they are compared for each input of each node.
    """

    VALUE, CHOSEN, ARRAY, REFERENCE, READ, CONSTANT, SEVERAL = range(7)


def _input_ways(node: Node) -> list[tuple[int, Edge, Value]]:
    wants_ref = reference_positions(node)
    calls = bool(functions_of(node))
    ways: list[tuple[int, Edge, Any]] = []
    for i, edge in enumerate(node.inputs):
        if is_array_handle(edge):
            ways.append((Way.ARRAY, edge, None))
        elif is_variable_edge(edge):
            variable = variable_of(edge)
            # A resource handle stays one, whatever the argument is declared as; and whether a
            # body that is called reads the variable, it decides itself.
            by_identity = i in wants_ref or (
                names_variable(edge) and (calls or edge.dtype.name == "resource")
            )
            way = Way.SEVERAL if variable is None else Way.REFERENCE if by_identity else Way.READ
            ways.append((way, edge, variable))
        elif edge.node.type == "Const":
            ways.append((Way.CONSTANT, edge, edge.node.attrs["value"]))
        elif edge.dtype._is_ref_dtype and i not in wants_ref:
            ways.append((Way.CHOSEN, edge, None))
        else:
            ways.append((Way.VALUE, edge, None))
    return ways


def form_of(node: Node) -> _Form:
    """What does not change from run to run about how a node's kernel is called."""
    form: _Form | None = node.form
    if form is None:
        form = node.form = _Form(node)
    return form


def gather_inputs(node: Node, env: dict[Edge, Value], services: Services) -> list[Value]:
    """The node's inputs: values, and VariableRefs where it takes a variable itself."""
    inputs: list[Any] = []
    form: _Form = node.form or form_of(node)
    for way, edge, known in form.inputs:
        if way == Way.VALUE:
            inputs.append(env[edge])
        elif way == Way.CONSTANT:
            inputs.append(env.get(edge, known))
        elif way == Way.READ:
            inputs.append(VariableRef(services.state, known).read())
        elif way == Way.REFERENCE:
            inputs.append(VariableRef(services.state, known))
        elif way == Way.ARRAY:
            inputs.append(env.get(edge))  # None from another stage: the value is the flow
        elif way == Way.CHOSEN:
            # A variable that was chosen in this step; see `is_chosen_reference`.
            value = env[edge]
            inputs.append(value.read() if isinstance(value, VariableRef) else value)
        else:
            raise errors.UnimplementedError(
                None, node.source, f"{edge.name} may be one of several variables"
            )
    return inputs


def reference_positions(node: Node) -> set[int]:
    """Positions of the inputs that the kernel takes as variables or handles, not as values."""
    positions: set[int] = set()
    for arg, position in zip(
        node.definition.signature.inputs,
        node.definition.signature.input_slices(node.attrs),
        strict=True,
    ):
        if arg.is_ref or (arg.dtype is not None and arg.dtype.name == "resource"):
            positions.update(
                range(position.start, position.stop) if isinstance(position, slice) else (position,)
            )
    return positions


def _has_gradient(definition: OpDefinition) -> bool:
    return definition.is_pure and definition.gradient_rule is not NO_GRADIENT


def run_loop(node: Node, inputs: list[Value], services: Services) -> list[Value]:
    """As `call`, for a loop whose variables are all on the host."""
    assert _host_bodies is not None
    attrs = node.attrs
    ready = _host_bodies[1](services, node, attrs["cond"], attrs["body"], inputs)
    if ready is None:
        return call(node, inputs, services)
    return ready.run(services.key(node), check_not_stopped)  # type: ignore[no-any-return]


def run_branch(node: Node, inputs: list[Value], services: Services) -> list[Value]:
    """As `call`, for an If whose inputs are all on the host."""
    assert _host_bodies is not None
    predicate, *args = inputs
    if type(predicate) is not np.ndarray or predicate.size != 1 or predicate.dtype != bool:
        return call(node, inputs, services)
    branch = node.attrs["then_branch" if predicate else "else_branch"]
    ready = _host_bodies[0](services, node, branch, args)
    if ready is None:
        return call(node, inputs, services)
    return ready(args, services.key(node))  # type: ignore[no-any-return]


def call(node: Node, inputs: list[Value], services: Services) -> list[Value]:
    """Runs one pure or host kernel and returns its outputs, flattened.

    Raises:
      OpError: What the kernel raised, as TensorFlow's class, with the op's name and origin.
    """
    form: _Form = node.form or form_of(node)
    if form.host_keywords is not None and not services.traced and _are_on_host(inputs):
        with np.errstate(all="ignore"):
            return _call_on_host(node, form, inputs)
    definition = node.definition
    traced, has_array, on_host = services.traced, False, True
    for i, value in enumerate(inputs):
        if type(value) is np.ndarray:
            continue
        if isinstance(value, jax.Array):
            if traced or isinstance(value, jax.core.Tracer):
                traced, on_host = True, False
            else:
                inputs[i] = np.asarray(value)
        elif isinstance(value, Collection):
            has_array = True
            leaves = [leaf for leaf in jax.tree.leaves(value) if isinstance(leaf, jax.Array)]
            if leaves and (traced or any(isinstance(v, jax.core.Tracer) for v in leaves)):
                traced, on_host = True, False
        elif traced and isinstance(value, VariableRef):
            on_host = False
    if services.in_body and not _has_gradient(definition):
        # JAX may be differentiating the body.
        inputs = [lax.stop_gradient(v) if isinstance(v, jax.core.Tracer) else v for v in inputs]
    if has_array:
        result = elementwise(node.type, inputs)
        if result is not NotImplemented:
            return [result]
    try:
        if on_host:
            memory.check_before(node, inputs, form.deciding, form.fitting)
        if form.traced is not None and not traced:
            return form.traced(inputs, services.state, services.key(node), services.tracing(node))
        keywords = dict(form.keywords)
        for special in definition.specials:
            keywords[special] = services.special(special, node, on_host)
        if services.differentiated and not on_host:

            def kernel(values: Sequence[Value]) -> list[Value]:
                placed = [values[position] for position in form.input_slices]
                return flatten_outputs(node, definition.kernel(*placed, **keywords))

            differentiable = body_gradients.call(node, inputs, kernel, services.run_gradient)
            if differentiable is not None:
                return differentiable
        arguments = [inputs[position] for position in form.input_slices]
        if on_host and definition.runs_on_numpy:
            with np.errstate(all="ignore"):
                result = definition.kernel(*arguments, **keywords)
        else:
            result = definition.kernel(*arguments, **keywords)
    except (NotCompilable, Stopped):
        raise
    except Exception as error:
        found = op_error(node, error)
        # What a kernel says on purpose needs no trace of its insides; a surprise does.
        raise found from (error if isinstance(found, errors.InternalError) else None)
    if definition.kind == "blocking":
        return result  # type: ignore[no-any-return]
    outputs = flatten_outputs(node, result)
    try:
        if not on_host:
            memory.check_after(node, outputs)
        elif on_host:
            memory.check_strings(outputs)
    except errors.ResourceExhaustedError as error:
        raise op_error(node, error) from None
    return outputs


def _are_on_host(inputs: list[Value]) -> bool:
    for value in inputs:
        if type(value) is not np.ndarray and type(value) is not VariableRef:
            return False
    return True


def _call_on_host(node: Node, form: _Form, inputs: list[Value]) -> list[Value]:
    """As `call`, for a kernel that runs on NumPy and arrays that are NumPy's: most of tier 0."""
    assert form.host_keywords is not None
    try:
        if form.may_grow:
            memory.check_before(node, inputs, form.deciding, form.fitting)
        if form.is_plain:
            result = node.definition.kernel(*inputs, **form.host_keywords)
        else:
            arguments = [inputs[position] for position in form.input_slices]
            result = node.definition.kernel(*arguments, **form.host_keywords)
        if type(result) is np.ndarray and result.dtype == form.only_type:
            return [result]
        outputs = flatten_outputs(node, result)
        if None in form.output_types:
            memory.check_strings(outputs)
    except (NotCompilable, Stopped):
        raise
    except Exception as error:
        found = op_error(node, error)
        raise found from (error if isinstance(found, errors.InternalError) else None)
    return outputs


def call_plainly(node: Node, inputs: list[Value], ctx: Context) -> list[Value]:
    """As `call`, for a host kernel that takes arrays and at most ``ctx`` and ``node`` besides.

    Synchronous training calls dozens of these in a step, each of which does next to nothing.

    Raises:
      OpError: As `call`.
    """
    definition, form = node.definition, form_of(node)
    keywords = dict(form.keywords)
    if "ctx" in definition.specials:
        keywords["ctx"] = ctx
    if "node" in definition.specials:
        keywords["node"] = node
    try:
        result = definition.kernel(
            *[inputs[position] for position in form.input_slices], **keywords
        )
    except Exception as error:
        found = op_error(node, error)
        raise found from (error if isinstance(found, errors.InternalError) else None)
    if definition.kind == "blocking":
        return result  # type: ignore[no-any-return]
    return flatten_outputs(node, result)


def flatten_outputs(node: Node, result: Value) -> list[Value]:
    """A kernel's result as one entry an output, with the types that the signature says."""
    form = form_of(node)
    positions = form.output_slices
    if not positions:
        return []
    results = (result,) if len(positions) == 1 else result
    if len(results) != len(positions):
        raise AssertionError(f"Kernel of {node.type} returned {len(results)} outputs")
    flat: list[Any] = []
    for position, item in zip(positions, results, strict=True):
        if isinstance(position, slice):
            flat.extend(item)
        else:
            flat.append(item)
    return [typed(value, dtype) for value, dtype in zip(flat, form.output_types, strict=True)]


def typed(value: Value, wanted: Value) -> Value:
    """`value` as an array of the NumPy type `wanted`; of objects if that is None."""
    if type(value) is np.ndarray:
        if value.dtype == (object if wanted is None else wanted):
            return value
    elif isinstance(value, VariableRef | Collection) or value is DEAD:
        return value
    elif wanted is not None and isinstance(value, jax.Array):
        return value if value.dtype == wanted else value.astype(wanted)
    return np.asarray(value, dtype=object if wanted is None else wanted)


#: Errors of Python's and of protocol buffers' that say that an input is wrong.
_OF_THE_INPUT = (
    TypeError,
    ValueError,
    IndexError,
    ZeroDivisionError,
    OverflowError,
    struct.error,
    DecodeError,
)


def op_error(node: Node, error: BaseException) -> errors.OpError:
    """`error` as TensorFlow's class, with the op's name, type and origin in the message."""
    where = f"\n\t [[node {node.name} ({node.type})"
    if node.source is not None and node.source.traceback:
        frame = node.source.traceback[-1]
        where += f" defined at {frame.filename}:{frame.lineno}"
    where += "]]"
    if isinstance(error, errors.OpError):
        if "[[node " in error.message:
            return error
        same: Any = type(error)
        result: errors.OpError = same(
            error.node_def, error.op or node.source, error.message + where
        )
        return result
    kind: Any = errors.InvalidArgumentError
    if isinstance(error, MemoryError):
        kind = errors.ResourceExhaustedError
    elif isinstance(error, NotImplementedError):
        kind = errors.UnimplementedError
    elif not isinstance(error, _OF_THE_INPUT):
        kind = errors.InternalError
    made: errors.OpError = kind(None, node.source, f"{error}{where}")
    return made


def run_nodes(
    nodes: Iterable[Node],
    env: dict[Edge, Value],
    services: Services,
    snapshots: frozenset[Edge] = frozenset(),
    begin: Callable[[Node], None] | None = None,
) -> None:
    """Runs nodes in order, reading and filling `env`.

    Args:
      nodes: In topological order.
      env: Values by edge; inputs must be there.
      services: Variables, random keys, checks.
      snapshots: Variable edges whose value right after their node is wanted in `env`.
      begin: Is told of each node before it runs.
    """
    with contextlib.nullcontext() if services.traced else np.errstate(all="ignore"):
        for node in nodes:
            if begin is not None:
                begin(node)
            form: _Form = node.form or form_of(node)
            if form.is_variable:
                # Read where it is used; see `is_variable_edge`.
                edge = form.edges[0]
                if edge in snapshots:
                    env[edge] = gather_inputs(node, env, services)[0]
                continue
            inputs = gather_inputs(node, env, services)
            if form.hands_on and type(inputs[0]) is np.ndarray:
                env[form.edges[0]] = inputs[0]
                continue
            if form.host_keywords is not None and not services.traced and _are_on_host(inputs):
                outputs = _call_on_host(node, form, inputs)
            else:
                outputs = call(node, inputs, services)
            for edge, value in zip(form.edges, outputs, strict=False):
                if type(value) is VariableRef:
                    if edge in snapshots:
                        env[edge] = value.read()
                else:
                    env[edge] = value
