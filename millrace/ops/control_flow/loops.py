"""Loops as functional ops: `while_loop` builds a While whose condition and body are functions.

A pure one becomes `lax.scan` or `lax.while_loop` inside the XLA program around it
(`loop_lowering.py`); one with state is run by the host, iteration by iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from millrace.core import dtypes, nest
from millrace.core.tensor_shape import TensorShape, as_shape
from millrace.core.tensor_spec import SparseTensorSpec, TensorSpec
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import control_dependencies, get_default_graph, name_scope
from millrace.graph.define import op
from millrace.graph.function import FuncGraph, unique_function_name
from millrace.graph.shape_inference import ShapeContext
from millrace.graph.tensor import Tensor
from millrace.ops.array import identity as array_identity
from millrace.ops.control_flow import hoisted_reads, loop_lowering
from millrace.ops.control_flow.loop_gradient import while_gradient
from millrace.ops.control_flow.structures import Leaves
from millrace.ops.functions.traced_function import TracedFunction, outer_controls, share_captures
from millrace.ops.math import comparison

__all__ = ["while_loop"]


def _while_shapes(c: ShapeContext) -> list[TensorShape]:
    if c.attrs.get("output_shapes"):
        return list(c.attr("output_shapes"))
    return [t.shape for t in c.inputs]


def _while_kernel(
    input: list[Any], *, cond: Any, body: Any, node: Any, rng: Any, invoke: Any, check: Any
) -> list[Any]:
    outputs, ok = loop_lowering.loop(cond, body, input, rng, invoke)
    check(ok, invoke.complaint())
    return outputs


_WHILE = (
    "(input: [T]) -> output: [T] where T: list(type); cond: func; body: func; "
    "output_shapes: list(shape) = []; parallel_iterations: int = 10"
)
While = op(f"While{_WHILE}", shape=_while_shapes, gradient=while_gradient, stateful=True)(
    _while_kernel
)
StatelessWhile = op(f"StatelessWhile{_WHILE}", shape=_while_shapes, gradient=while_gradient)(
    _while_kernel
)


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
    maximum_iterations: Any = None,
    return_same_structure: bool = False,
) -> Any:
    """Repeats `body` while `cond` holds.

    Args:
      cond: From the loop variables to a scalar bool.
      body: From the loop variables to their next values, in the same structure.
      loop_vars: Initial values: tensors, SparseTensors, TensorArrays, or structures.
      shape_invariants: Less specific shapes, for variables whose shape changes.
      parallel_iterations: Accepted; iterations run one after the other.
      back_prop: Whether the loop can be differentiated.
      swap_memory: Accepted; has no effect.
      name: Name of the operation.
      maximum_iterations: An upper bound for the number of iterations.
      return_same_structure: Whether a single loop variable stays in its list.
    """
    if not callable(cond):
        raise TypeError("cond must be callable.")
    if not callable(body):
        raise TypeError("body must be callable.")
    if parallel_iterations < 1:
        raise TypeError("parallel_iterations must be a positive integer.")
    if not loop_vars and not isinstance(loop_vars, Tensor):
        raise ValueError("'loop_vars' must be provided: there is no loop variable.")
    variables = loop_vars if isinstance(loop_vars, list | tuple) else [loop_vars]
    with name_scope(name, "while", []) as scope:
        if maximum_iterations is not None:
            return _bounded_loop(
                cond,
                body,
                variables,
                shape_invariants,
                maximum_iterations,
                back_prop,
                scope,
                return_same_structure,
            )
        loop = _Loop(cond, body, variables, shape_invariants)
        result = loop.build(back_prop, scope)
    if not return_same_structure and len(nest.flatten(variables)) == 1:
        return nest.flatten(result)[0]
    return result


def _bounded_loop(
    cond: Any,
    body: Any,
    variables: Any,
    invariants: Any,
    limit: Any,
    back_prop: bool,
    scope: str,
    keep_list: bool,
) -> Any:
    limit = convert_to_tensor(limit, name="maximum_iterations")
    if limit.shape.ndims not in (None, 0):
        raise ValueError(f"maximum_iterations must be a scalar, saw shape: {limit.shape}")
    counter = convert_to_tensor(0, limit.dtype.base_dtype, name="iteration_counter")
    original = variables

    def bounded_cond(i: Any, values: Any) -> Any:
        holds = cond(*values)
        return comparison.logical_and(i < limit, holds)

    def bounded_body(i: Any, values: Any) -> Any:
        result = body(*values)
        if len(original) == 1 and not (isinstance(result, list | tuple) and len(result) == 1):
            result = [result]
        packed = list(result) if isinstance(result, list | tuple) else [result]
        return i + 1, nest.pack_sequence_as(original, nest.flatten(packed))

    if invariants is not None:
        invariants = [TensorShape([]), invariants]
    loop = _Loop(bounded_cond, bounded_body, [counter, original], invariants)
    result = loop.build(back_prop, scope)[1]
    if not keep_list and len(nest.flatten(original)) == 1:
        return nest.flatten(result)[0]
    return result


class _Loop:
    """A while loop under construction."""

    def __init__(self, cond: Any, body: Any, variables: Any, invariants: Any) -> None:
        self._cond = cond
        self._body = body
        self._variables = variables
        self._initial = Leaves(variables)
        self._shapes, self._vary = self._invariant_shapes(invariants)

    def _invariant_shapes(self, invariants: Any) -> Any:
        tensors = self._initial.tensors
        if invariants is None:
            return [t.shape for t in tensors], False
        flat = nest_shapes(invariants)
        if len(flat) != len(self._initial.kinds):
            raise ValueError(
                f"shape_invariants has {len(flat)} shapes for {len(self._initial.kinds)} loop "
                "variables"
            )
        shapes: list[TensorShape] = []
        vary = False
        for kind, shape in zip(self._initial.kinds, flat, strict=True):
            parts = kind.invariant_shapes(shape)
            shapes.extend(parts)
        for tensor, shape in zip(tensors, shapes, strict=True):
            if not _is_less_specific(tensor.shape, shape):
                raise ValueError(
                    f"The shape invariant specified for {tensor.name} is not compatible with the "
                    f"initial shape of the loop variable. It enters the loop with shape "
                    f"{tensor.shape}, but the specified shape invariant is {shape}."
                )
            vary = vary or shape.sizes != tensor.shape.sizes
        return shapes, vary

    def build(self, back_prop: bool, scope: str) -> Any:
        """Makes the node and returns the results in the structure of the loop variables."""
        outer = get_default_graph()
        tensors = self._initial.tensors
        condition = self._trace("while_cond", self._cond)
        if len(condition.leaves.tensors) != 1:
            raise TypeError("cond must return a single boolean scalar")
        pred = condition.leaves.tensors[0]
        if pred.dtype.base_dtype != dtypes.bool:
            raise TypeError(f"The condition of a loop must be a bool, not {pred.dtype.name}")
        body = self._trace("while_body", self._call_body)
        self._check_body(body)
        hoisted_reads.take_out([condition, body])
        captures = share_captures([condition.graph, body.graph])
        body.leaves.tensors.extend(body.graph.captures.values())
        functions = [condition.finish(), body.finish()]
        keywords: dict[str, Any] = {"_shapes_vary": True} if self._vary else {}
        with control_dependencies(outer_controls([condition.graph, body.graph])):
            node = While.operation(
                [*tensors, *captures],
                cond=functions[0],
                body=functions[1],
                output_shapes=[*self._shapes, *(t.shape for t in captures)],
                name=scope,
                **keywords,
            )
        outputs = node.outputs[: len(tensors)]
        if not back_prop:
            outputs = [array_identity.stop_gradient(t) for t in outputs]
        assert outer is node.graph
        return self._initial.rebuild(node, outputs)

    def _trace(self, kind: str, call: Callable[..., Any]) -> TracedFunction:
        outer = get_default_graph()
        graph = FuncGraph(unique_function_name(outer, kind), outer)
        graph.root._functions[graph.name] = None
        with graph.as_default():
            arguments = []
            for tensor, shape in zip(self._initial.tensors, self._shapes, strict=True):
                inner = graph.add_argument(
                    tensor.dtype.base_dtype, shape, tensor.op.name.split("/")[-1]
                )
                inner.handle_data = tensor.handle_data
                arguments.append(inner)
            values = self._initial.rebuild(None, arguments)
            structure = call(*values)
            leaves = Leaves(structure)
        return TracedFunction(graph, structure, leaves)

    def _call_body(self, *values: Any) -> Any:
        result = self._body(*values)
        if isinstance(result, list | tuple) and not hasattr(result, "_fields"):
            single = len(self._variables) == 1 and len(result) != 1
            packed = [result] if single else list(result)
        else:
            packed = [result]
        return packed

    def _check_body(self, body: TracedFunction) -> None:
        wanted, found = self._initial, body.leaves
        if len(wanted.tensors) != len(found.tensors):
            raise ValueError(
                "The number of elements in the structure of the body's result differs from "
                f"loop_vars: {len(found.tensors)} and {len(wanted.tensors)}. "
                f"loop_vars: {self._variables}, body returned: {body.structure}"
            )
        for before, shape, after in zip(wanted.tensors, self._shapes, found.tensors, strict=True):
            if before.dtype.base_dtype != after.dtype.base_dtype:
                raise TypeError(
                    f"Loop variable {before.name} enters the loop with type "
                    f"{before.dtype.base_dtype.name}, but has type {after.dtype.base_dtype.name} "
                    "after one iteration."
                )
            if not _is_less_specific(after.shape, shape):
                raise ValueError(
                    f"Input tensor '{before.name}' enters the loop with shape {shape}, but has "
                    f"shape {after.shape} after one iteration. To allow the shape to vary across "
                    "iterations, use the `shape_invariants` argument of tf.while_loop to specify "
                    "a less-specific shape."
                )


def nest_shapes(invariants: Any) -> list[Any]:
    """The shapes in a structure of shapes (TensorShapes and lists of sizes are leaves)."""
    if isinstance(invariants, TensorSpec | SparseTensorSpec):
        return [invariants.shape]
    if isinstance(invariants, TensorShape) or invariants is None:
        return [invariants]
    if (
        isinstance(invariants, list | tuple)
        and all(isinstance(d, int | np.integer) or d is None for d in invariants)
        and invariants
    ):
        return [as_shape(invariants)]
    if isinstance(invariants, dict):
        return [s for key in sorted(invariants) for s in nest_shapes(invariants[key])]
    return [s for item in invariants for s in nest_shapes(item)]


def _is_less_specific(shape: TensorShape, invariant: TensorShape) -> bool:
    """Whether every value of `shape` fits into `invariant`."""
    if invariant.sizes is None:
        return True
    if shape.sizes is None or len(shape.sizes) != len(invariant.sizes):
        return False
    return all(i is None or i == s for s, i in zip(shape.sizes, invariant.sizes, strict=True))
