"""Op types that use a queue, a table or a reader, each in TensorFlow's two forms.

The old form takes the handle as a reference to two strings, the new one (V2) as a resource; all
else is the same, and so is the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.graph.define import Op, op
from millrace.graph.registry import NO_GRADIENT

#: What handles are in each form, by what is added to its name.
HANDLE_KINDS = {"": "ref(string)", "V2": "resource"}


def both_forms(
    name: str,
    inputs: str,
    rest: str,
    kernel: Callable[..., Any],
    shape: Callable[..., Any],
    blocking: bool = False,
) -> tuple[Op, Op]:
    """The old and the new form of an op type.

    Args:
      name: The old form's name.
      inputs: Their names and types, with HANDLE as the type of a handle.
      rest: The outputs and attributes.
      kernel: The kernel.
      shape: The rule for shapes.
      blocking: Whether it may wait.
    """
    old, new = (
        op(
            f"{name}{version}({inputs.replace('HANDLE', kind)}){rest}",
            shape=shape,
            gradient=NO_GRADIENT,
            host=not blocking,
            blocking=blocking,
            stateful=bool(version),
        )(kernel)
        for version, kind in HANDLE_KINDS.items()
    )
    return old, new
