"""Kernels that only JAX can run, run without its compiler: traced once, evaluated with NumPy.

Tracing takes milliseconds, so what a node was traced for is kept by the shapes and types of its
inputs and the values of those that decide a shape; those used last stay.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from millrace.compiler import target
from millrace.compiler.numpy_evaluator import evaluated
from millrace.compiler.xla import jax, jnp
from millrace.core import errors
from millrace.core.value import Value
from millrace.ops.control_flow.tensor_list_value import Collection
from millrace.ops.random.philox import HostKey, key_of_words
from millrace.passes.function_body import length_inputs
from millrace.passes.node import Node
from millrace.passes.schedule import static_positions
from millrace.runtime.variable_state import TracedState, VariableRef, VariableState
from millrace.runtime.variable_use import VariableUse

#: For so many sets of shapes a node's trace is kept.
MAX_TRACES = 64
#: Ops that choose which bodies run, node by node, and one whose kernel only makes a Python object.
_AS_THEY_ARE = frozenset(
    (
        "If",
        "StatelessIf",
        "Case",
        "StatelessCase",
        "While",
        "StatelessWhile",
        "PartitionedCall",
        "StatefulPartitionedCall",
        "TensorArrayV3",
    )
)

#: Types whose values JAX cannot trace: what they are is known, or of no interest.
_OBJECTS = ("string", "resource", "variant")

#: (inputs, state, random key, check) -> outputs: the kernel, called inside a trace.
TracedCall = Callable[[list[Any], VariableState, Any, Callable[..., None]], list[Any]]


def applies(node: Node) -> bool:
    """Whether a node's kernel must be traced to run on the host."""
    definition = node.definition
    if not definition.is_pure or definition.runs_on_numpy or node.type in _AS_THEY_ARE:
        return False
    if "variable" in definition.specials:
        return False
    if any(dtype.base_dtype.name in ("string", "variant") for dtype in node.output_types):
        return False  # The kernel hands them on: it cannot compute with them.
    return bool(definition.updates or definition.overwrites) or any(
        not (dtype._is_ref_dtype or dtype.name == "resource") for dtype in node.output_types
    )


class _Check(NamedTuple):
    message: Any
    value_count: int


class _Traced:
    """A node's kernel for inputs of given shapes."""

    def __init__(
        self,
        call: TracedCall,
        inputs: Sequence[Value],
        dynamic: Sequence[int],
        variables: Mapping[Node, Value],
        written: Sequence[Node],
        words: Value,
    ) -> None:
        self._checks: list[_Check] = []
        #: Which outputs are the variables themselves.
        self._references: dict[int, Node] = {}

        def function(values: list[Value], held: list[Value], words: Value) -> Value:
            oks: list[Any] = []
            details: list[Any] = []

            def check(ok: Value, message: Value, *of: Value) -> None:
                if not isinstance(ok, jax.Array):
                    if not np.all(ok):
                        raise ValueError(message(*of) if callable(message) else message)
                    return
                self._checks.append(_Check(message, len(of)))
                oks.append(jnp.all(ok))
                details.extend(of)

            state = TracedState(dict(zip(variables, held, strict=True)))
            given = list(inputs)
            for position, value in zip(dynamic, values, strict=True):
                given[position] = value
            given = [
                VariableRef(state, value.node) if isinstance(value, VariableRef) else value
                for value in given
            ]
            key = None if words is None else key_of_words(words)
            outputs = call(given, state, key, check)
            self._references = {
                i: value.node for i, value in enumerate(outputs) if isinstance(value, VariableRef)
            }
            found = [v for i, v in enumerate(outputs) if i not in self._references]
            return found, [state.values[v] for v in written], oks, details

        arguments = [inputs[i] for i in dynamic], list(variables.values()), words
        with target.numpy():
            closed, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
        self._run = evaluated(closed)
        self._tree = jax.tree.structure(shapes)
        #: Primitives that JAX must run after all.
        self.missing = self._run.missing

    def __call__(self, arguments: Value, state: VariableState) -> tuple[list[Value], list[Value]]:
        """(the outputs, what is to be written); raises what a check of the kernel says."""
        leaves = self._run(*jax.tree.leaves(arguments))
        leaves = [v if type(v) is np.ndarray else np.asarray(v) for v in leaves]
        found, written, oks, details = jax.tree.unflatten(self._tree, leaves)
        start = 0
        for ok, check in zip(oks, self._checks, strict=True):
            if not ok:
                values = details[start : start + check.value_count]
                message = check.message(*values) if callable(check.message) else check.message
                raise errors.InvalidArgumentError(None, None, str(message))
            start += check.value_count
        for position, variable in self._references.items():
            found.insert(position, VariableRef(state, variable))
        return found, written


class TracedKernel:
    """A node whose kernel is traced for every new set of shapes."""

    def __init__(self, node: Node) -> None:
        use = VariableUse([node], frozenset())
        self._read, self._written = use.read, use.written
        self._perhaps = set(use.perhaps)
        static = static_positions(node) | _length_positions(node)
        self._static = static | {
            i for i, edge in enumerate(node.inputs) if edge.dtype.base_dtype.name in _OBJECTS
        }
        self._takes_key = "rng" in node.definition.specials
        self._lock = threading.Lock()
        self._known: OrderedDict[Any, _Traced] = OrderedDict()

    def __call__(
        self, inputs: list[Value], state: VariableState, key: HostKey | None, call: TracedCall
    ) -> list[Value]:
        """The kernel's outputs for these inputs; what it writes is written to `state`."""
        dynamic = [
            i
            for i, value in enumerate(inputs)
            if i not in self._static and isinstance(value, np.ndarray | Collection)
        ]
        variables: dict[Node, Any] = {}
        for variable in self._read:
            try:
                variables[variable] = state.read(variable)
            except errors.FailedPreconditionError:
                if variable not in self._perhaps:
                    raise
        words = key.words if self._takes_key and key is not None else None
        signature = self._signature(inputs, dynamic, variables)
        with self._lock:
            traced = self._known.pop(signature, None)
            if traced is not None:
                self._known[signature] = traced
        if traced is None:
            traced = _Traced(call, inputs, dynamic, variables, self._written, words)
            with self._lock:
                self._known[signature] = traced
                if len(self._known) > MAX_TRACES:
                    self._known.popitem(last=False)
        arguments = [inputs[i] for i in dynamic], list(variables.values()), words
        with np.errstate(all="ignore"):
            outputs, written = traced(arguments, state)
        del arguments
        variables.clear()  # What nobody holds is changed in place.
        for variable, value in zip(self._written, written, strict=True):
            state.write(variable, value)
        return outputs

    def _signature(
        self, inputs: list[Value], dynamic: list[int], variables: Mapping[Node, Value]
    ) -> Value:
        leaves, tree = jax.tree.flatten([inputs[i] for i in dynamic])
        parts = [(value.shape, value.dtype.str) for value in leaves]
        held = [(value.shape, value.dtype.str) for value in variables.values()]
        known = [
            (value.shape, value.dtype.str, _content(value))
            for i in self._static
            if isinstance(value := inputs[i], np.ndarray)
        ]
        return tree if len(leaves) != len(dynamic) else None, *parts, None, *held, None, *known


def _content(value: Value) -> Value:
    if not value.dtype.hasobject:
        return value.tobytes()
    return tuple(v if isinstance(v, bytes | str) else id(v) for v in value.ravel().tolist())


def _length_positions(node: Node) -> set[int]:
    """Inputs that decide how often a loop runs, which its gradient must know."""
    deciding = set(length_inputs(node) or ())
    return {i for i, edge in enumerate(node.inputs) if edge in deciding}
