"""The generic gradient: `jax.vjp` of an op's own kernel, behind one op type.

A node of type VectorJacobianProduct carries the forward op's type and attributes (under
``_forward_`` names), its inputs, and the gradients of its outputs. Its own kernel is a JAX
function again, so second derivatives come for free.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from millrace.compiler.xla import jax, jnp
from millrace.core import errors
from millrace.core.dtypes import DType
from millrace.core.tensor_shape import TensorShape
from millrace.graph import registry
from millrace.graph.define import op
from millrace.graph.function import Function
from millrace.graph.gradient_walk import is_trainable, register_jax_gradient
from millrace.graph.operation import Operation
from millrace.graph.registry import JAX_GRADIENT
from millrace.graph.shape_inference import ShapeContext
from millrace.graph.tensor import Tensor
from millrace.ops.control_flow.tensor_array_value import like

_PREFIX = "_forward_"


def _shapes(c: ShapeContext) -> list[TensorShape]:
    inputs = c.tensors("inputs")
    return [_value_kind(inputs[i])[0] for i in c.attr("wrt")]


def _value_kind(tensor: Tensor) -> tuple[TensorShape, DType]:
    """Shape and type of a tensor's value; for a resource, those of its variable."""
    if tensor.handle_data is not None:
        return tensor.handle_data
    return tensor.shape, tensor.dtype.base_dtype


@op(
    "VectorJacobianProduct(inputs: [Tin], statics: [Tstatic], grads: [Tgrad]) -> outputs: [Tout] "
    "where op_type: string; wrt: list(int); static_positions: list(int) = []; "
    'grad_outputs: list(int); Tout: list(type); forward_name: string = ""',
    shape=_shapes,
    static=("statics",),
    gradient=JAX_GRADIENT,
)
def VectorJacobianProduct(
    inputs: list[Any],
    statics: list[Any],
    grads: list[Any],
    *,
    op_type: bytes,
    wrt: list[int],
    static_positions: list[int],
    grad_outputs: list[int],
    node: Any,
    rng: Any,
    invoke: Any,
) -> list[Any]:
    """Gradients for inputs `wrt` of the forward op, given those of its `grad_outputs`."""
    definition = registry.lookup(op_type.decode())
    attrs = {
        name[len(_PREFIX) :]: value
        for name, value in node.attrs.items()
        if name.startswith(_PREFIX)
    }
    keywords = {name: attrs[name] for name in definition.kernel_attrs}
    specials: dict[str, Any] = {
        "xp": jnp,
        "check": lambda *_: None,
        "rng": rng,
        "node": SimpleNamespace(name=node.name, attrs=attrs, source=None),
    }
    full: list[Any] = [None] * (len(inputs) + len(statics))
    for position, value in zip(static_positions, statics, strict=True):
        full[position] = value
    dynamic_positions = [i for i in range(len(full)) if i not in set(static_positions)]
    for position, value in zip(dynamic_positions, inputs, strict=True):
        full[position] = value
    places = definition.signature.input_slices(attrs)
    output_places = definition.signature.output_slices(attrs)
    chosen = [dynamic_positions[i] for i in wrt]

    def forward(*differentiated: Any) -> list[Any]:
        values = list(full)
        overrides: dict[Any, Any] = {}
        for position, value in zip(chosen, differentiated, strict=True):
            if _is_variable(values[position]):
                overrides[values[position].node] = value
            else:
                values[position] = value
        specials["invoke"] = invoke.overriding(overrides)
        keywords.update({name: specials[name] for name in definition.specials})
        result = definition.kernel(*(values[place] for place in places), **keywords)
        results = (result,) if len(output_places) == 1 else result
        flat: list[Any] = []
        for place, item in zip(output_places, results, strict=True):
            flat.extend(item) if isinstance(place, slice) else flat.append(item)
        return [flat[i] for i in grad_outputs]

    primal_inputs = [
        full[p].read() if _is_variable(full[p]) else jax.tree.map(jnp.asarray, full[p])
        for p in chosen
    ]
    primals, pull_back = jax.vjp(forward, *primal_inputs)
    # TensorFlow's gradient of a complex function is the conjugate of JAX's.
    cotangents = [
        jax.tree.map(lambda g, p: jnp.conj(jnp.asarray(g, p.dtype)), like(grad, primal), primal)
        for grad, primal in zip(grads, primals, strict=True)
    ]
    return [jax.tree.map(jnp.conj, gradient) for gradient in pull_back(cotangents)]


def _is_variable(value: Any) -> bool:
    return hasattr(value, "read") and hasattr(value, "node")


def jax_gradient(forward: Operation, *grads: Any) -> list[Any]:
    """Builds the gradient of `forward` with one VectorJacobianProduct node."""
    definition = forward.definition
    signature = definition.signature
    arguments: Iterable[int] = definition.static_inputs
    if definition.static_rule is not None:
        arguments = [signature.input_index(name) for name in definition.static_rule(forward)]
    places: list[Any] = signature.input_slices(forward.attrs)
    static: list[int] = []
    for i in sorted(arguments):
        place = places[i]
        static.extend(range(place.start, place.stop) if isinstance(place, slice) else (place,))
    dynamic = [i for i in range(len(forward.inputs)) if i not in set(static)]
    wrt = [k for k, i in enumerate(dynamic) if is_trainable(forward.inputs[i])]
    used = [
        i
        for i, (tensor, grad) in enumerate(zip(forward.outputs, grads, strict=True))
        if grad is not None and is_trainable(tensor) and tensor.dtype.name != "resource"
    ]
    result: list[Any] = [None] * len(forward.inputs)
    if not wrt or not used:
        return result
    _refuse_own_gradients(forward, forward.attrs)
    attrs = {f"{_PREFIX}{name}": value for name, value in forward.attrs.items()}
    outputs = VectorJacobianProduct(
        [forward.inputs[i] for i in dynamic],
        [forward.inputs[i] for i in static],
        [grads[i] for i in used],
        op_type=forward.type,
        forward_name=forward.name,
        wrt=wrt,
        static_positions=static,
        grad_outputs=used,
        Tout=[_value_kind(forward.inputs[dynamic[k]])[1] for k in wrt],
        **attrs,
    )
    for k, gradient in zip(wrt, outputs, strict=True):
        result[dynamic[k]] = gradient
    return result


def _refuse_own_gradients(forward: Operation, attrs: dict[str, Any]) -> None:
    """Raises if a body holds an operation with a gradient of its own: JAX would not call it."""
    for value in attrs.values():
        for function in value if isinstance(value, list) else [value]:
            if not isinstance(function, Function):
                continue
            for inner in (o for t in function.outputs[:1] for o in t.graph.get_operations()):
                if "_gradient_op_type" in inner.attrs:
                    raise errors.UnimplementedError(
                        None,
                        forward,
                        f"The gradient of {forward.name} ({forward.type}) goes through "
                        f"{inner.name} ({inner.type}) in its body, which has a gradient of its "
                        "own (tf.custom_gradient or Graph.gradient_override_map). That works "
                        "outside of conditionals and loops only: apply it to their inputs or "
                        "results",
                    )
                _refuse_own_gradients(forward, inner.attrs)


register_jax_gradient(jax_gradient)

__all__: list[str] = []
