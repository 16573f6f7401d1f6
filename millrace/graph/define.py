"""`op`: the decorator that turns a kernel into a registered op type and its builder."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from millrace.graph import registry
from millrace.graph.building import build, build_operation
from millrace.graph.operation import Operation
from millrace.graph.registry import UNSTATED, OpDefinition


class Op(OpDefinition):
    """An op type that can be called: ``MatMul(x, y, transpose_b=True, name="product")``."""

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Adds a node of this type to the graph; see `building.build`."""
        return build(self, args, keywords)

    def operation(self, *args: Any, **keywords: Any) -> Operation:
        """As a call, but returns the operation instead of its outputs."""
        return build_operation(self, args, keywords)


def op(
    text: str,
    *,
    shape: Callable[..., Any],
    gradient: Any = UNSTATED,
    host: bool = False,
    blocking: bool = False,
    static: Iterable[str] | Callable[[Any], Iterable[str]] = (),
    updates: Iterable[str] = (),
    overwrites: Iterable[str] = (),
    stateful: bool = False,
) -> Callable[[Callable[..., Any]], Op]:
    """Registers the decorated function as the kernel of an op type.

    The kernel's positional parameters are the inputs (a list for a list argument); its
    keyword-only parameters are attributes of the signature or `registry.SPECIAL_PARAMETERS`.

    Args:
      text: The signature; see `graph.signature`.
      shape: The shape rule; see `graph.shape_inference`.
      gradient: `NO_GRADIENT`, `JAX_GRADIENT`, a function, or stated later with
        ``@TheOp.gradient``.
      host: The kernel is a Python function on NumPy arrays, outside of XLA. If it takes ``xp``,
        it runs while a program is traced when its inputs are known then.
      blocking: A host kernel that may return a Future.
      static: Inputs whose value decides a shape or the program; the kernel gets them as
        NumPy arrays. A function of the node where it depends on the node which ones do.
      updates: Variable inputs that it reads and writes.
      overwrites: Variable inputs that it writes without reading.
      stateful: Whether two runs may differ though the inputs are the same.
    """

    def register(kernel: Callable[..., Any]) -> Op:
        definition = Op(
            text,
            shape_rule=shape,
            kernel=kernel,
            kind="blocking" if blocking else "host" if host else "pure",
            static_inputs=static,
            updates=updates,
            overwrites=overwrites,
            is_stateful=stateful,
            gradient=gradient,
        )
        definition.__doc__ = kernel.__doc__
        registry.register(definition)
        return definition

    return register
