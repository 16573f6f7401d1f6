"""Ops that hand their input on: identities, promises about it, and its bits as another type."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.compiler.xla import jax, jnp, lax
from millrace.core.tensor_shape import TensorShape, as_shape, unknown_shape
from millrace.graph.define import op
from millrace.graph.dispatch import dispatched
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, unchanged
from millrace.graph.slices import IndexedSlices, SparseTensor
from millrace.graph.tensor import Tensor
from millrace.ops.array.rules import shape_text

__all__ = [
    "bitcast",
    "ensure_shape",
    "guarantee_const",
    "identity",
    "identity_n",
    "prevent_gradient",
    "stop_gradient",
]


def _same_value(c: ShapeContext) -> list[TensorShape]:
    for source, output in zip(c.inputs, c.op.outputs, strict=True):
        output.handle_data = source.handle_data
    return [t.shape for t in c.inputs]


@op("Identity(input: T) -> output: T", shape=_same_value)
def Identity(input: Any, *, xp: Any) -> Any:
    """The input."""
    return input


@Identity.gradient
def _(op: Operation, grad: Any) -> Any:
    return grad


@dispatched
def identity(input: Any, name: str | None = None) -> Any:
    """A tensor with the value of `input`."""
    # As in TensorFlow, the parts of a composite are named by themselves, not by `name`.
    if isinstance(input, SparseTensor):
        return SparseTensor(*map(Identity, (input.indices, input.values, input.dense_shape)))
    if isinstance(input, IndexedSlices):
        values, indices = Identity(input.values), Identity(input.indices)
        shape = None if input.dense_shape is None else Identity(input.dense_shape)
        return IndexedSlices(values, indices, shape)
    return Identity(input, name=name)


@op("IdentityN(input: [T]) -> output: [T] where T: list(type) >= 1", shape=_same_value)
def IdentityN(input: list[Any], *, xp: Any) -> Any:
    """The inputs."""
    return input


@IdentityN.gradient
def _(op: Operation, *grads: Any) -> Any:
    return grads


def identity_n(input: Any, name: str | None = None) -> list[Tensor]:
    """Tensors with the values of the inputs, all made by one op."""
    result: list[Tensor] = IdentityN(list(input), name=name)
    return result


@op("RefIdentity(input: ref(T)) -> output: ref(T)", shape=_same_value)
def RefIdentity(input: Any) -> Any:
    """The same reference."""
    return input


@RefIdentity.gradient
def _(op: Operation, grad: Any) -> Any:
    return grad


@op("StopGradient(input: T) -> output: T", shape=unchanged, gradient=NO_GRADIENT)
def StopGradient(input: Any, *, xp: Any) -> Any:
    """The input, which gradients do not pass."""
    return input


def stop_gradient(input: Any, name: str | None = None) -> Tensor:
    """The value of `input`; to gradients it is a constant."""
    result: Tensor = StopGradient(input, name=name)
    return result


@op('PreventGradient(input: T) -> output: T where message: string = ""', shape=unchanged)
def PreventGradient(input: Any, *, xp: Any) -> Any:
    """The input; asking for its gradient is an error."""
    return input


@PreventGradient.gradient
def _(op: Operation, grad: Any) -> Any:
    raise LookupError(f"Gradient explicitly disabled. Reason: {op.get_attr('message')}.")


def prevent_gradient(input: Any, message: str = "", name: str | None = None) -> Tensor:
    """The value of `input`; `tf.gradients` through it raises LookupError with `message`."""
    result: Tensor = PreventGradient(input, message=message, name=name)
    return result


@op("Snapshot(input: T) -> output: T", shape=unchanged)
def Snapshot(input: Any, *, xp: Any) -> Any:
    """A value of its own: XLA's values never change, so it is the input."""
    return input


@Snapshot.gradient
def _(op: Operation, grad: Any) -> Any:
    return grad


@op("DeepCopy(x: T) -> y: T", shape=unchanged, gradient=NO_GRADIENT, stateful=True)
def DeepCopy(x: Any) -> Any:
    """A copy of the input."""
    return x


@op("DebugGradientIdentity(input: T) -> output: T", shape=unchanged)
def DebugGradientIdentity(input: Any) -> Any:
    """The input; debuggers find gradients by it."""
    return input


@DebugGradientIdentity.gradient
def _(op: Operation, grad: Any) -> Any:
    return grad


@op("GuaranteeConst(input: T) -> output: T", shape=unchanged, gradient=NO_GRADIENT, stateful=True)
def GuaranteeConst(input: Any) -> Any:
    """The input, which the program promises not to change."""
    return input


def guarantee_const(input: Any, name: str | None = None) -> Tensor:
    """The value of `input`, promised to be the same in every step."""
    result: Tensor = GuaranteeConst(input, name=name)
    return result


def _ensured_shape(c: ShapeContext) -> TensorShape:
    wanted = as_shape(c.attr("shape"))
    if not c.shape(0).is_compatible_with(wanted):
        raise ValueError(
            f"Shapes must be compatible, but are {c.shape(0)} and {wanted} (asked for)"
        )
    return c.shape(0).merge_with(wanted)


@op("EnsureShape(input: T) -> output: T where shape: shape", shape=_ensured_shape)
def EnsureShape(input: Any, *, shape: Any, xp: Any, node: Any) -> Any:
    """The input, if it has the shape asked for."""
    if not as_shape(shape).is_compatible_with(input.shape):
        raise ValueError(
            f"Shape of tensor {node.name} {shape_text(input.shape)} is not compatible with "
            f"expected shape {shape_text(shape.sizes)}."
        )
    return input


@EnsureShape.gradient
def _(op: Operation, grad: Any) -> Any:
    return grad


def ensure_shape(x: Any, shape: Any, name: str | None = None) -> Tensor:
    """`x`, checked to have `shape` when the graph is built and in every step.

    Raises:
      ValueError: What is known of the shape contradicts it.
    """
    result: Tensor = EnsureShape(x, shape=as_shape(shape), name=name)
    return result


# -- Bits --------------------------------------------------------------------------------

_BITCAST_TYPES = (
    "{bfloat16, float16, float32, float64, int64, int32, uint8, uint16, uint32, uint64, int8, "
    "int16, complex64, complex128, qint8, quint8, qint16, quint16, qint32}"
)


def _bitcast_shape(c: ShapeContext) -> TensorShape:
    sizes = c.shape(0).sizes
    if sizes is None:
        return unknown_shape()
    have, want = c.attr("T").size, c.attr("type").size
    if have == want:
        return c.shape(0)
    if have > want:
        return TensorShape([*sizes, have // want])
    if not sizes or sizes[-1] not in (None, want // have):
        raise ValueError(
            f"Cannot bitcast due to shape. {sizes[-1] if sizes else '<none>'} does not match "
            f"{want // have}"
        )
    return TensorShape(sizes[:-1])


@op(
    f"Bitcast(input: T) -> output: type where T: {_BITCAST_TYPES}; type: {_BITCAST_TYPES}",
    shape=_bitcast_shape,
    gradient=NO_GRADIENT,
)
def Bitcast(input: Any, *, type: Any, xp: Any) -> Any:
    """The bits of the input read as another type."""
    have, want = np.dtype(input.dtype), np.dtype(type.as_numpy_dtype)
    ratio = want.itemsize // have.itemsize
    if ratio > 1 and (not input.ndim or input.shape[-1] != ratio):
        raise ValueError(
            f"Cannot bitcast from {have} to {want}: shape {shape_text(input.shape)} must end in "
            f"{ratio}"
        )
    if xp is np:
        flat = np.ascontiguousarray(input).reshape(-1).view(np.uint8).view(want)
        if ratio > 1:
            return flat.reshape(input.shape[:-1])
        inner = have.itemsize // want.itemsize
        return flat.reshape(input.shape + ((inner,) if inner > 1 else ()))
    return _bitcast_in_xla(jnp.asarray(input), want)


def _bitcast_in_xla(x: jax.Array, want: Any) -> jax.Array:
    """XLA casts the bits of real numbers only: complex ones pass as pairs of these."""
    if np.dtype(x.dtype) == want:
        return x
    if jnp.iscomplexobj(x):
        pairs = jnp.stack([x.real, x.imag], -1)
        if want.kind == "c" or pairs.dtype.itemsize < want.itemsize:
            # complex128 to complex64: each double is a pair; or both parts make one number.
            return _bitcast_in_xla(pairs, want)
        return lax.bitcast_convert_type(pairs, want).reshape(*x.shape, -1)
    if want.kind == "c":
        part = np.dtype(np.float32 if want.itemsize == 8 else np.float64)
        if x.dtype.itemsize < part.itemsize:
            x = x.reshape(*x.shape[:-1], 2, part.itemsize // x.dtype.itemsize)
        parts = lax.bitcast_convert_type(x, part)
        return lax.complex(parts[..., 0], parts[..., 1])
    return lax.bitcast_convert_type(x, want)


@dispatched
def bitcast(input: Any, type: Any, name: str | None = None) -> Tensor:
    """The bits of `input` read as `type`, without conversion.

    A wider type takes up the last dimension, a narrower one adds a dimension.
    """
    result: Tensor = Bitcast(input, type=type, name=name)
    return result
