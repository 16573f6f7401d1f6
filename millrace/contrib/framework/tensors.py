"""Functions of `tf.contrib.framework` around tensors and graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import millrace as tf
from millrace.contrib.framework import nest
from millrace.ops.state import variable_changes


def py_func(
    func: Callable[..., Any],
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    output_types: Any = None,
    output_shapes: Any = None,
    stateful: bool = True,
    name: str | None = None,
) -> Any:
    """`tf.py_func`, with structures as arguments and results.

    Args:
      func: Is given arrays in the structures of `args` and `kwargs`.
      args: Its arguments by place.
      kwargs: Its arguments by name.
      output_types: The types of what it returns, in the structure of that.
      output_shapes: Their shapes, in the same structure.
      stateful: Whether it may be run once for several equal calls.
      name: Name of the op.

    Raises:
      TypeError: `args` is no list or tuple, or `kwargs` no mapping.
    """
    if not isinstance(args, list | tuple):
        raise TypeError(f"args must be list and not {type(args)}. args: {args}")
    kwargs = {} if kwargs is None else kwargs
    if not isinstance(kwargs, Mapping):
        raise TypeError(f"kwargs must be dict and not {type(kwargs)}. args: {kwargs}")
    arguments = {"args": list(args), "kwargs": dict(kwargs)}
    is_given = [isinstance(each, tf.Tensor | tf.Variable) for each in nest.flatten(arguments)]
    flat = nest.flatten(arguments)
    given = [each for each, tensor in zip(flat, is_given, strict=True) if tensor]
    types = [] if output_types is None else nest.flatten(output_types)

    def call(*arrays: Any) -> Any:
        fresh = iter(arrays)
        values = [next(fresh) if t else v for v, t in zip(flat, is_given, strict=True)]
        structured = nest.pack_sequence_as(arguments, values)
        result = func(*structured["args"], **structured["kwargs"])
        if output_types is None:
            return []
        nest.assert_same_structure(output_types, result)
        return nest.flatten(result)

    results = tf.py_func(call, given, types, stateful=stateful, name=name)
    if output_types is None:
        return results
    if output_shapes is not None:
        shapes = nest.flatten_up_to(output_types, output_shapes, check_types=False)
        for result, shape in zip(results, shapes, strict=True):
            result.set_shape(shape)
    return nest.pack_sequence_as(output_types, list(results))


def zero_initializer(ref: Any, use_locking: bool = True, name: str = "zero_initializer") -> Any:
    """The variable `ref`, set to zeros without a tensor of zeros of its size being fed."""
    return variable_changes.assign(ref, tf.zeros(ref.shape, ref.dtype.base_dtype), name=name)


def get_name_scope() -> str:
    """The name scope in which the next op would be made."""
    return tf.get_default_graph().get_name_scope()


def get_placeholders(graph: Any) -> list[Any]:
    """All placeholders of a graph."""
    return [op.outputs[0] for op in graph.get_operations() if op.type == "Placeholder"]


def get_graph_from_inputs(op_input_list: Sequence[Any], graph: Any = None) -> Any:
    """The graph that all of these belong to; the default graph if none says.

    Raises:
      ValueError: They belong to different graphs.
    """
    for each in op_input_list:
        found = getattr(each, "graph", None)
        if found is None:
            continue
        if graph is not None and found is not graph:
            raise ValueError(f"{each} must be from the same graph as the others.")
        graph = found
    return graph or tf.get_default_graph()
