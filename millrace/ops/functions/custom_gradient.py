"""`tf.custom_gradient`: a function that brings its own derivative.

Its results and arguments pass through one IdentityN node whose gradient is the given function:
what lies behind the results is not differentiated, the arguments get the function's gradients.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable
from typing import Any

from millrace.core import nest
from millrace.graph import registry
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import get_default_graph
from millrace.graph.graph import Graph
from millrace.graph.keys import GraphKeys
from millrace.graph.operation import Operation
from millrace.graph.registry import RegisterGradient

__all__ = ["custom_gradient", "grad_pass_through", "recompute_grad"]

_serials = itertools.count()


def custom_gradient(f: Callable[..., Any] | None = None) -> Any:
    """Decorator for a function that returns ``(result, gradient function)``.

    The gradient function takes a gradient for each result and returns one for each argument. If
    the function uses trainable variables, it also takes ``variables``, a list of them, and returns
    ``(gradients of arguments, gradients of variables)``.

    Args:
      f: The function.
    """
    if f is None:
        return custom_gradient

    @functools.wraps(f)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            raise ValueError(
                "The custom_gradient decorator currently supports keywords arguments only when "
                "eager execution is enabled."
            )
        return _call(f, args)

    return decorated


def _call(f: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    graph = get_default_graph()
    arguments = [convert_to_tensor(x) for x in nest.flatten(args)]
    # Copies: a result that is an argument itself must not look like its own input.
    copies = [registry.lookup("Identity")(x) for x in arguments]  # type: ignore[operator]
    before = graph.version
    result, gradient_function = f(*nest.pack_sequence_as(args, copies))
    variables = _variables_used(graph, before)
    if variables and not _takes_variables(gradient_function):
        raise TypeError(
            "@tf.custom_gradient grad_fn must accept keyword argument 'variables', since function "
            f"uses variables: {variables}"
        )
    results = [convert_to_tensor(x) for x in nest.flatten(result)]
    count = len(results)
    name = f"CustomGradient-{next(_serials)}"

    @RegisterGradient(name)
    def gradient(op: Operation, *result_grads: Any) -> Any:
        grads = result_grads[:count]
        if variables:
            argument_grads, variable_grads = gradient_function(*grads, variables=variables)
            if len(variable_grads) != len(variables):
                raise ValueError(
                    "Must return gradient for each variable from @custom_gradient grad_fn."
                )
        else:
            argument_grads, variable_grads = gradient_function(*grads), []
        return [None] * count + nest.flatten(argument_grads) + list(variable_grads)

    values = [v.value() for v in variables]
    with graph.gradient_override_map({"IdentityN": name}):
        build = registry.lookup("IdentityN")
        outputs = build([*results, *copies, *values])  # type: ignore[operator]
    return nest.pack_sequence_as(result, outputs[:count])


def _variables_used(graph: Graph, before: int) -> list[Any]:
    """Trainable variables that operations added since `before` read."""
    used = {t.op for op in graph.get_operations()[before:] for t in op.inputs}
    added = set(graph.get_operations()[before:])
    return [
        v
        for v in graph.get_collection(GraphKeys.TRAINABLE_VARIABLES)
        if v.op in used
        or v.op in added
        or any(t.op.type == "Identity" and t.op.inputs[0].op is v.op for t in _inputs(added))
    ]


def _inputs(ops: set[Operation]) -> list[Any]:
    return [tensor for op in ops for tensor in op.inputs]


def _takes_variables(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(p.name == "variables" or p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)


def grad_pass_through(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f` with the gradient of the identity.

    Args:
      f: A function of one or more tensors.
    """

    @custom_gradient
    def passing(*args: Any) -> Any:
        def gradient(*result_grads: Any, **kwargs: Any) -> Any:
            grads = result_grads[0] if len(result_grads) == 1 else list(result_grads)
            variables = kwargs.get("variables")
            return (grads, [None] * len(variables)) if variables else grads

        return f(*args), gradient

    return passing


def recompute_grad(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f` itself: XLA decides what to keep and what to compute again."""

    @functools.wraps(f)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return f(*args, **kwargs)

    return inner
