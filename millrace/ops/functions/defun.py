"""`Defun`: TensorFlow 1's decorator for functions of typed tensors, with their own gradients.

A call adds the function's operations to the graph, under a scope of the function's name: what a
planner would do with a call first anyway. A gradient function takes the place of the derivative
of all that the call added.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from millrace.core import nest
from millrace.core.dtypes import as_dtype
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.tensor import Tensor
from millrace.ops.array.fill import zeros_like
from millrace.ops.functions.custom_gradient import custom_gradient

__all__ = ["Defun"]


class _Call(NamedTuple):
    """What a gradient function sees of the call that it is the gradient of."""

    name: str
    inputs: list[Tensor]
    outputs: list[Tensor]


class Defun:
    """Decorator that makes a graph function of a Python function of tensors."""

    def __init__(self, *input_types: Any, **kwargs: Any) -> None:
        """Takes the types of the arguments.

        Args:
          *input_types: One per argument; none at all leaves the types to each call.
          **kwargs: ``func_name``; ``python_grad_func``, called with the call (its ``inputs`` and
            ``outputs``) and a gradient per result; ``grad_func``, a Defun of inputs and gradients;
            ``shape_func``, from the call to static shapes of the results. ``noinline``,
            ``out_names``, ``capture_by_value`` and ``compiled`` have no effect.
        """
        self._input_types = [as_dtype(each) for each in input_types]
        self._options = kwargs

    def __call__(self, func: Callable[..., Any]) -> DefinedFunction:
        """The function of tensors that `func` describes."""
        if not callable(func):
            raise ValueError(f"function {func} must be callable.")
        count = _positional_count(func)
        if count is not None and self._input_types and count != len(self._input_types):
            raise ValueError(
                f"The function has {count} arguments, and {len(self._input_types)} types are "
                "declared for them."
            )
        return DefinedFunction(func, self._input_types, self._options)


class DefinedFunction:
    """A function of tensors. Calling it adds what it does to the graph."""

    def __init__(
        self, func: Callable[..., Any], input_types: list[Any], options: dict[str, Any]
    ) -> None:
        self._func = func
        self.declared_input_types = input_types
        self.name = str(options.get("func_name") or getattr(func, "__name__", "function"))
        self._python_gradient = options.get("python_grad_func")
        self._gradient: Any = options.get("grad_func")
        self._shapes = options.get("shape_func")
        functools.update_wrapper(self, func)

    @property
    def python_grad_func(self) -> Any:
        """The Python function that builds this one's gradient, if it was given."""
        return self._python_gradient

    @property
    def grad_func_name(self) -> str | None:
        """The name of the function that is this one's gradient, if it was given."""
        return self._gradient.name if self._gradient is not None else None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Adds the function's operations to the graph; returns its results."""
        name = kwargs.pop("name", None)
        types = self.declared_input_types or [None] * len(args)
        if len(args) != len(types):
            raise ValueError(f"Expected number of arguments: {len(types)}, received: {len(args)}")
        with name_scope(name or self.name) as scope:
            inputs = [convert_to_tensor(a, dtype=t) for a, t in zip(args, types, strict=True)]
            if self._python_gradient is None and self._gradient is None:
                results = _tensors(self._func(*inputs))
            else:
                results = self._with_gradient(scope.rstrip("/"), inputs)
        if self._shapes is not None:
            call = _Call(scope.rstrip("/"), inputs, results)
            for result, shape in zip(results, self._shapes(call), strict=True):
                result.set_shape(shape)
        return results[0] if len(results) == 1 else tuple(results)

    def _with_gradient(self, name: str, inputs: list[Tensor]) -> list[Tensor]:
        @custom_gradient
        def call(*given: Any) -> Any:
            results = _tensors(self._func(*given))

            def gradient(*grads: Any, variables: Any = None) -> Any:
                filled = [
                    zeros_like(result) if grad is None else grad
                    for result, grad in zip(results, grads, strict=True)
                ]
                if self._python_gradient is not None:
                    found = self._python_gradient(_Call(name, inputs, results), *filled)
                else:
                    found = self._gradient(*inputs, *filled)
                found = list(found) if isinstance(found, list | tuple) else [found]
                return (found, [None] * len(variables)) if variables else found

            return results, gradient

        return nest.flatten(call(*inputs))


def _tensors(result: Any) -> list[Tensor]:
    if result is None:
        return []
    return [
        convert_to_tensor(each)
        for each in (result if isinstance(result, list | tuple) else [result])
    ]


def _positional_count(func: Callable[..., Any]) -> int | None:
    """How many arguments a function takes; None if that is not fixed."""
    parameters = list(inspect.signature(func).parameters.values())
    if any(p.kind in (p.VAR_POSITIONAL, p.KEYWORD_ONLY) for p in parameters):
        return None
    if any(p.default is not p.empty for p in parameters):
        return None
    return len(parameters)
