"""Calls of functions, and their gradients as an op.

Python code here makes none of them: they come in graphs of others (`tf.function`, Defun).
"""

from __future__ import annotations

from typing import Any

from millrace.compiler.xla import jax, jnp
from millrace.core.tensor_shape import TensorShape
from millrace.graph.define import op
from millrace.graph.function import Function
from millrace.graph.registry import JAX_GRADIENT, NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext

__all__: list[str] = []


def _call_kernel(args: list[Any], *, f: Any, rng: Any, invoke: Any, check: Any) -> list[Any]:
    outputs, ok = invoke(f, args, rng)
    check(ok, invoke.complaint())
    return list(outputs)


def _call_shapes(c: ShapeContext) -> list[TensorShape]:
    function = c.attr("f")
    if not isinstance(function, Function):
        return [TensorShape(None)] * c.output_count
    return [tensor.shape for tensor in function.outputs]


_CALL = (
    "(args: [Tin]) -> output: [Tout] where f: func; Tin: list(type) >= 0; Tout: list(type) >= 0; "
    'config: string = ""; config_proto: string = ""; executor_type: string = ""'
)
#: A call. Wherever a step is planned, it is replaced by what the function contains.
PartitionedCall = op(f"PartitionedCall{_CALL}", shape=_call_shapes, gradient=JAX_GRADIENT)(
    _call_kernel
)
StatefulPartitionedCall = op(
    f"StatefulPartitionedCall{_CALL}", shape=_call_shapes, gradient=JAX_GRADIENT, stateful=True
)(_call_kernel)


def _symbolic_gradient_shapes(c: ShapeContext) -> list[TensorShape]:
    return [c.shape(i) for i in range(c.output_count)]


@op(
    "SymbolicGradient(input: [Tin]) -> output: [Tout] where Tin: list(type) >= 1; "
    "Tout: list(type) >= 1; f: func",
    shape=_symbolic_gradient_shapes,
    gradient=NO_GRADIENT,
)
def SymbolicGradient(
    input: list[Any], *, f: Any, Tout: list[Any], rng: Any, invoke: Any, check: Any
) -> list[Any]:
    """The gradients of a function's arguments, given those of its results."""
    args, grads = input[: len(Tout)], input[len(Tout) :]
    wrt = [i for i, dtype in enumerate(Tout) if dtype.is_floating or dtype.is_complex]

    def forward(*chosen: Any) -> Any:
        values = list(args)
        for i, value in zip(wrt, chosen, strict=True):
            values[i] = value
        outputs, ok = invoke(f, values, rng)
        return [jnp.asarray(output) for output in outputs], jnp.asarray(ok)

    vjp: Any = jax.vjp(forward, *(jnp.asarray(args[i]) for i in wrt), has_aux=True)
    _, pull_back, ok = vjp
    check(ok, invoke.complaint())
    found = dict(zip(wrt, pull_back([jnp.asarray(grad) for grad in grads]), strict=True))
    return [found.get(i, jnp.zeros_like(arg)) for i, arg in enumerate(args)]
