"""Gradients of the ops in a body that JAX differentiates as a whole: TensorFlow's, not JAX's.

The gradient of a loop or conditional is `jax.vjp` of its body. Where a function has no derivative
(of two equal numbers none is the larger, |x| at 0), there is a choice, and JAX's is not
TensorFlow's: that one is the op's own gradient, which is used outside of bodies. So the kernel of
such an op has its way back from there (`jax.custom_vjp`): a little graph, made once for each set
of attributes and shapes.

What is made of smooth primitives only has one derivative, and is left to JAX.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from millrace.compiler.xla import jax, jnp
from millrace.core.value import GradientRule, Jaxpr, Value
from millrace.graph import registry
from millrace.graph.convert import convert_to_tensor
from millrace.graph.gradient_walk import is_trainable
from millrace.graph.graph import Graph
from millrace.graph.slices import IndexedSlices
from millrace.graph.tensor import Tensor
from millrace.ops.array.constant import constant, placeholder
from millrace.passes.inline import inline_calls
from millrace.passes.node import Node, Program
from millrace.passes.prune import prune
from millrace.passes.schedule import topological_order
from millrace.platform import logging

#: What has a derivative wherever it has a finite value.
_SMOOTH = frozenset(
    (
        "acos acosh add add_any asin asinh atan atanh broadcast_in_dim concatenate "
        "conv_general_dilated convert_element_type copy copy_p cos cosh cumsum dot_general "
        "dynamic_slice dynamic_update_slice erf erf_inv erfc exp exp2 expand_dims expm1 gather "
        "integer_pow iota log log1p logistic mul neg pad reduce_sum reshape rev scatter-add sin "
        "sinh slice split square squeeze stack stop_gradient sub tan tanh transpose"
    ).split()
)
#: So many sets of attributes and shapes are remembered.
_MAX_KNOWN = 4096

#: A kernel: the values of all inputs in, those of all outputs out.
Kernel = Callable[[Sequence[Any]], list[Any]]
#: Runs the nodes of a gradient, on the values of its arguments by edge.
RunNodes = Callable[[Iterable[Node], dict[Any, Any]], None]


class _Gradient(NamedTuple):
    """The gradient of an op, as a program.

    Attributes:
      program: Its arguments are the traced inputs, the outputs, and the gradients of these.
      grads: For which outputs it takes a gradient.
      wrt: For which of the traced inputs it has one.
      used: Which inputs and outputs it needs; the others need not be kept.
    """

    program: Program
    grads: list[int]
    wrt: list[int]
    used: frozenset[int]


_lock = threading.Lock()
_known: OrderedDict[Any, _Gradient | None] = OrderedDict()


def call(node: Node, inputs: list[Value], kernel: Kernel, run: RunNodes) -> list[Value] | None:
    """Runs a kernel so that JAX differentiates it as TensorFlow does.

    Args:
      node: The node.
      inputs: Its inputs, of which some are traced.
      kernel: Its kernel.
      run: Runs the nodes of the gradient.

    Returns:
      The outputs, or None if it can be left to JAX.
    """
    rule = _rule_of(node)
    if rule is None or not all(isinstance(v, np.ndarray | np.generic | jax.Array) for v in inputs):
        return None
    positions = [i for i, value in enumerate(inputs) if isinstance(value, jax.core.Tracer)]
    if not any(jnp.issubdtype(inputs[i].dtype, jnp.inexact) for i in positions):
        return None

    def compute(*traced: Value) -> list[Value]:
        values = list(inputs)
        for position, value in zip(positions, traced, strict=True):
            values[position] = value
        return [jnp.asarray(output) for output in kernel(values)]

    gradient = _gradient(node, rule, inputs, positions, compute)
    if gradient is None:
        return None
    differentiable = jax.custom_vjp(compute)
    count = len(positions)

    def forward(*traced: Value) -> tuple[list[Value], list[Value]]:
        outputs = compute(*traced)
        every = [*traced, *outputs]
        return outputs, [value if i in gradient.used else None for i, value in enumerate(every)]

    def backward(kept: list[Value], cotangents: list[Value]) -> tuple[Value, ...]:
        # TensorFlow's gradient of a complex function is the conjugate of JAX's.
        given = [jnp.conj(cotangents[i]) for i in gradient.grads]
        program = gradient.program
        env = {
            edge: value
            for edge, value in zip(program.arguments, [*kept, *given], strict=True)
            if value is not None
        }
        run(program.nodes, env)
        found: list[Any] = [None] * count
        for i, edge in zip(gradient.wrt, program.results, strict=True):
            value = env[edge] if edge in env else edge.node.attrs["value"]
            found[i] = jnp.conj(jnp.asarray(value))
        return tuple(found)

    differentiable.defvjp(forward, backward)
    outputs: list[Any] = differentiable(*(inputs[position] for position in positions))
    return outputs


def _rule_of(node: Node) -> GradientRule:
    """The op's own gradient function; None if it has none, or its kernel needs more than inputs."""
    definition = node.definition
    if not definition.is_pure or not {"xp", "node"}.issuperset(definition.specials):
        return None
    try:
        rule = registry.gradient_rule(node.type)
    except LookupError:
        return None
    return rule if callable(rule) else None


def _gradient(
    node: Node,
    rule: GradientRule,
    inputs: list[Value],
    positions: list[int],
    compute: Callable[..., list[Value]],
) -> _Gradient | None:
    """The gradient of a node for inputs like these, made at most once; None to leave it to JAX."""
    forms = [
        (v.shape, str(v.dtype), None if i in positions else np.asarray(v).tobytes())
        for i, v in enumerate(inputs)
    ]
    attrs = sorted((name, repr(value)) for name, value in node.attrs.items())
    key = (node.type, rule, *map(tuple, attrs), *forms)
    with _lock:
        if key in _known:
            return _known[key]
    found: _Gradient | None = None
    traced = [jax.ShapeDtypeStruct(inputs[i].shape, inputs[i].dtype) for i in positions]  # type: ignore[no-untyped-call]
    if not _is_smooth(jax.make_jaxpr(compute)(*traced).jaxpr):
        try:
            found = _build(node, rule, inputs, positions)
        except Exception as error:
            logging.debug("The gradient of %s (%s) is JAX's: %s", node.name, node.type, error)
    with _lock:
        _known[key] = found
        if len(_known) > _MAX_KNOWN:
            _known.popitem(last=False)
    return found


def _is_smooth(jaxpr: Jaxpr) -> bool:
    for equation in jaxpr.eqns:
        inner = [
            getattr(value, "jaxpr", value)
            for value in equation.params.values()
            if hasattr(getattr(value, "jaxpr", value), "eqns")
        ]
        if inner:
            if equation.primitive.name not in ("pjit", "jit", "closed_call"):
                return False  # Its derivative may be its own.
            if not all(map(_is_smooth, inner)):
                return False
        elif equation.primitive.name not in _SMOOTH and _has_tangent(equation):
            return False
    return True


def _has_tangent(equation: Jaxpr) -> bool:
    """Whether a derivative goes through an equation at all."""

    def inexact(variables: Iterable[Jaxpr]) -> bool:
        return any(jnp.issubdtype(v.aval.dtype, jnp.inexact) for v in variables)

    return inexact(equation.invars) and inexact(equation.outvars)


def _build(node: Node, rule: GradientRule, inputs: list[Value], positions: list[int]) -> _Gradient:
    """The op's gradient as a program of its own."""
    graph = Graph()
    with graph.as_default():
        tensors = [
            placeholder(value.dtype, value.shape) if i in positions else constant(np.asarray(value))
            for i, value in enumerate(inputs)
        ]
        op = graph.create_op(node.type, tensors, attrs=dict(node.attrs))
        given = [placeholder(t.dtype, t.shape) if is_trainable(t) else None for t in op.outputs]
        made = rule(op, *given)
        if isinstance(made, Tensor | IndexedSlices) or made is None:
            made = [made]
        wanted = [
            (k, convert_to_tensor(made[position]))
            for k, position in enumerate(positions)
            if made[position] is not None and is_trainable(tensors[position])
        ]
    grads = [i for i, each in enumerate(given) if each is not None]
    traced = [tensors[position] for position in positions]
    feeds = [*traced, *op.outputs, *(each for each in given if each is not None)]
    program = inline_calls(prune([tensor for _, tensor in wanted], [], feeds))
    program = program.with_nodes(topological_order(program.nodes))
    if any(not each.definition.is_pure for each in program.nodes):
        raise ValueError("it needs values that only a run has")
    read = {edge for each in program.nodes for edge in each.inputs} | {*program.results}
    used = frozenset(i for i, edge in enumerate(program.arguments) if edge in read)
    return _Gradient(program, grads, [k for k, _ in wanted], used)
