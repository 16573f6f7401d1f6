"""TensorFlow's own transfer nodes, for partitions that a master of TensorFlow has cut.

A value is put under a key at the task that makes it, and fetched from there by the task that needs
it (`RecvTensor`). The key is text: who sends, its incarnation, who receives, the tensor, and which
iteration of which frame it is of.
"""

from __future__ import annotations

from collections.abc import Callable

from millrace.core.value import Context, Value
from millrace.graph import registry
from millrace.graph.signature import parse
from millrace.passes.node import Node, Program

_ENDS = (
    "tensor_name: string; send_device: string; send_device_incarnation: int; recv_device: string; "
    "client_terminated: bool = false"
)
_MASK = (1 << 64) - 1


def _send(tensor: object, *, ctx: Context, node: Node) -> tuple[()]:
    ctx.exchange.put(node, key_of(node), tensor)
    return ()


def _receive(*, ctx: Context, node: Node) -> Value:
    return ctx.exchange.fetch(node, key_of(node))


def _define(
    name: str, signature: str, kernel: Callable[..., Value], kind: str
) -> registry.OpDefinition:
    made = registry.OpDefinition(
        parse(f"{name}{signature}; {_ENDS}"),
        shape_rule=lambda c: None,
        kernel=kernel,
        kind=kind,
        is_stateful=True,
        gradient=registry.NO_GRADIENT,
    )
    registry.register(made)
    return made


SENDS = tuple(
    _define(name, "(tensor: T) where T: type", _send, "host") for name in ("_Send", "_HostSend")
)
RECEIVES = tuple(
    _define(name, "() -> tensor: tensor_type where tensor_type: type", _receive, "blocking")
    for name in ("_Recv", "_HostRecv")
)


def may_die(program: Program) -> bool:
    """Whether what a program receives may be dead without anything in it telling so."""
    return any(node.definition in RECEIVES for node in program.nodes)


def key_of(node: Node, frame: int = 0, iteration: int = 0) -> str:
    """The key of what a node sends or receives in an iteration of a frame."""
    attrs = node.attrs
    incarnation = attrs["send_device_incarnation"] & _MASK
    return (
        f"{attrs['send_device'].decode()};{incarnation:016x};{attrs['recv_device'].decode()};"
        f"{attrs['tensor_name'].decode()};{frame}:{iteration}"
    )


def inner_frame(frame: int, iteration: int, name: bytes) -> int:
    """The number, in TensorFlow's keys, of a frame that is entered from an iteration of another."""
    return _combine(frame, _combine(iteration, _murmur(name)))


def _combine(one: int, other: int) -> int:
    return one ^ ((other + 0x9E3779B97F4A7800 + (one << 10) + (one >> 4)) & _MASK)


def _murmur(data: bytes, seed: int = 0xDECAFCAFFE) -> int:
    """MurmurHash64A, by Austin Appleby."""
    factor, shift = 0xC6A4A7935BD1E995, 47
    found = seed ^ (len(data) * factor & _MASK)
    whole = len(data) // 8 * 8
    for start in range(0, whole, 8):
        part = int.from_bytes(data[start : start + 8], "little") * factor & _MASK
        part = (part ^ part >> shift) * factor & _MASK
        found = (found ^ part) * factor & _MASK
    if rest := data[whole:]:
        found = (found ^ int.from_bytes(rest, "little")) * factor & _MASK
    found = (found ^ found >> shift) * factor & _MASK
    return found ^ found >> shift
