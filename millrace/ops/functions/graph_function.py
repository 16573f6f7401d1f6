"""`tf.function` in a graph: a call adds the function's operations to the graph.

As in TensorFlow's graphs, what the function changes happens whenever a result of it is computed,
in the order of the program; the results wait for it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

from millrace.core import nest
from millrace.graph.defaults import control_dependencies, get_default_graph, name_scope
from millrace.graph.tensor import Tensor
from millrace.ops.array.identity import identity
from millrace.ops.control_flow.control_flow import no_op

__all__ = ["function"]


def function(
    func: Callable[..., Any] | None = None,
    input_signature: Any = None,
    autograph: bool = True,
    experimental_implements: str | None = None,
    experimental_autograph_options: Any = None,
    experimental_relax_shapes: bool = False,
    experimental_compile: bool | None = None,
) -> Any:
    """Makes a function of tensors one unit: its changes happen when its results are computed.

    Args:
      func: From tensors to tensors; None when this is used as a decorator with arguments.
      input_signature: TensorSpecs that the arguments must fit.
      autograph: Accepted; Python's own ``if`` and ``while`` are not translated: use `tf.cond` and
        `tf.while_loop`.
      experimental_implements: Accepted; has no effect, as the following.
      experimental_autograph_options: See above.
      experimental_relax_shapes: See above.
      experimental_compile: See above: everything is compiled.
    """
    if func is None:
        return functools.partial(function, input_signature=input_signature)
    made = _GraphFunction(func, input_signature)
    return functools.update_wrapper(made, func)


class _GraphFunction:
    """What `function` returns."""

    def __init__(self, func: Callable[..., Any], input_signature: Any) -> None:
        self.python_function = func
        self.input_signature = input_signature

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        bound = functools.partial(self.python_function, instance)
        made = _GraphFunction(bound, self.input_signature)
        return functools.update_wrapper(made, self.python_function, updated=())

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Adds the function's operations to the graph; returns its results."""
        if self.input_signature is not None:
            self._check(args)
        graph = get_default_graph()
        before = len(graph.get_operations())
        with name_scope(getattr(self, "__name__", "function")):
            result = self.python_function(*args, **keywords)
            made = graph.get_operations()[before:]
            ordered = [op for op in made if _has_an_order(op)]
            for first, second in itertools.pairwise(ordered):
                if not _reaches(second, first):
                    second._add_control_input(first)
            if not ordered:
                return result
            with control_dependencies(ordered):
                if result is None:
                    return no_op()
                return nest.map_structure(
                    lambda each: identity(each) if isinstance(each, Tensor) else each, result
                )

    def _check(self, args: tuple[Any, ...]) -> None:
        specs = nest.flatten(self.input_signature)
        values = nest.flatten(list(args))
        if len(specs) != len(values):
            raise ValueError(
                f"Structure of Python function inputs does not match input_signature: "
                f"{len(values)} inputs for {len(specs)} specs"
            )
        for spec, value in zip(specs, values, strict=True):
            if isinstance(value, Tensor) and not (
                value.dtype.base_dtype == spec.dtype and value.shape.is_compatible_with(spec.shape)
            ):
                raise ValueError(
                    f"Python inputs incompatible with input_signature: {value} does not fit {spec}"
                )


def _has_an_order(op: Any) -> bool:
    """Whether an operation changes something, or sees what others change."""
    definition = op.definition
    return bool(
        definition.updates
        or definition.overwrites
        or not op.outputs
        or op.type in ("ReadVariableOp", "PyFunc", "PrintV2")
    )


def _reaches(start: Any, goal: Any) -> bool:
    """Whether `goal` runs before `start` already."""
    pending, seen = [start], set()
    while pending:
        op = pending.pop()
        if op is goal:
            return True
        if op not in seen:
            seen.add(op)
            pending.extend(t.op for t in op.inputs)
            pending.extend(op.control_inputs)
    return False
