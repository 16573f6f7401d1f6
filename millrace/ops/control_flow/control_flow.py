"""Conditionals as functional ops, and the small tools of ordering.

`cond` builds an If and `case` a chain of them, whose branches are functions of their own
(`millrace.ops.functions.traced_function`). A pure one becomes `lax.cond` inside the XLA program
around it; of one with state the host runs the branch that is taken. Loops are in `loops.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.compiler.xla import jnp
from millrace.core import dtypes, nest
from millrace.core.tensor_shape import TensorShape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import (
    colocate_with,
    control_dependencies,
    device,
    name_scope,
)
from millrace.graph.define import op
from millrace.graph.function import FuncGraph
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, none
from millrace.graph.slices import IndexedSlices
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.array import identity as array_identity
from millrace.ops.array import join as array_join
from millrace.ops.control_flow import assertion, hoisted_reads, loop_lowering
from millrace.ops.control_flow.branch_gradient import branch_gradient
from millrace.ops.functions.traced_function import (
    TracedFunction,
    outer_controls,
    share_captures,
    traced,
)
from millrace.ops.math import reduction

__all__ = [
    "case",
    "cond",
    "group",
    "no_op",
    "switch_case",
    "tuple",
    "with_dependencies",
]


#: The built-in type, whose name this module gives to `tf.tuple`.
_Tuple = type(())

# -- Ordering ----------------------------------------------------------------------------


@op("NoOp()", shape=none, gradient=NO_GRADIENT)
def NoOp(*, xp: Any) -> None:
    """Does nothing; others wait for it."""


def no_op(name: str | None = None) -> Operation:
    """An operation that does nothing; useful for its control inputs."""
    result: Operation = NoOp(name=name)
    return result


def group(*inputs: Any, name: str | None = None, **kwargs: Any) -> Operation:
    """An operation that runs after all of `inputs`.

    One no-op a device gathers what is there, so that few control edges cross devices.
    """
    if kwargs:
        raise ValueError(f"Unknown keyword arguments: {', '.join(kwargs)}")
    leaves = [leaf for item in inputs for leaf in nest.flatten(item) if leaf is not None]
    with name_scope(name, "group_deps", leaves) as scope:
        if not leaves:
            return no_op(name=scope)
        by_device: dict[str, list[Any]] = {}
        for leaf in leaves:
            if not hasattr(leaf, "device"):
                raise TypeError(
                    f"'inputs' should be zero or more (nested) Tensors. Received "
                    f"'{leaf}' with type '{type(leaf)}'."
                )
            by_device.setdefault(leaf.device or "", []).append(leaf)
        if len(by_device) == 1:
            ((place, members),) = by_device.items()
            return _group_on(place, members, scope)
        gathered = [_group_on(place, by_device[place], "NoOp") for place in sorted(by_device)]
        with control_dependencies(gathered):
            return no_op(name=scope)


def _group_on(place: str, members: list[Any], name: str) -> Operation:
    with control_dependencies(members):
        if not place:
            return no_op(name=name)
        with device(place):
            return no_op(name=name)


def with_dependencies(dependencies: Any, output_tensor: Any, name: str | None = None) -> Any:
    """`output_tensor`, available only after `dependencies` have run."""
    with (
        name_scope(name, "control_dependency", [*dependencies, output_tensor]) as scope,
        # Not elsewhere: a gradient is to wait in the task that computed it.
        colocate_with(output_tensor),
        control_dependencies(dependencies),
    ):
        if isinstance(output_tensor, IndexedSlices):
            return IndexedSlices(
                array_identity.identity(output_tensor.values, name=scope),
                output_tensor.indices,
                output_tensor.dense_shape,
            )
        return array_identity.identity(convert_to_tensor(output_tensor), name=scope)


def tuple(tensors: Any, name: str | None = None, control_inputs: Any = None) -> list[Any]:
    """The same values, each available only when all of them are."""
    with name_scope(name, "tuple", list(tensors)):
        present = [t for t in tensors if t is not None]
        gates = [t if isinstance(t, Operation) else t.op for t in present]
        if control_inputs:
            for item in control_inputs:
                if isinstance(item, Operation):
                    gates.append(item)
                elif hasattr(item, "op"):
                    gates.append(item.op)
                else:
                    raise TypeError(f"Control input must be Operation or Tensor: {item}")
        gates = sorted(set(gates), key=lambda o: o._id)
        if not gates:
            raise ValueError(f"Must have at least one Tensor: {tensors}")
        gate = group(*gates)
        result: list[Any] = []
        for tensor in tensors:
            if tensor is None:
                result.append(None)
            elif isinstance(tensor, Operation):
                with control_dependencies([gate]):
                    result.append(no_op())
            else:
                result.append(with_dependencies([gate], tensor))
        return result


# -- Conditionals ------------------------------------------------------------------------


def _if_shapes(c: ShapeContext) -> list[TensorShape]:
    if c.attrs.get("output_shapes"):
        return list(c.attr("output_shapes"))
    return _merged_shapes([c.attr("then_branch"), c.attr("else_branch")], c.output_count)


def _merged_shapes(functions: list[Any], count: int) -> list[TensorShape]:
    shapes = []
    for i in range(count):
        shape = functions[0].outputs[i].shape
        for function in functions[1:]:
            shape = shape.most_specific_compatible_shape(function.outputs[i].shape)
        shapes.append(shape)
    return shapes


def _if_kernel(
    cond: Any,
    input: list[Any],
    *,
    then_branch: Any,
    else_branch: Any,
    rng: Any,
    invoke: Any,
    check: Any,
) -> list[Any]:
    pred = loop_lowering.as_predicate(cond)
    if isinstance(pred, bool):
        outputs, ok = invoke(then_branch if pred else else_branch, input, rng)
        check(ok, invoke.complaint())
        return list(outputs)
    outputs, ok = loop_lowering.conditional(pred, [else_branch, then_branch], input, rng, invoke)
    check(ok, invoke.complaint())
    return outputs


_IF = (
    "(cond: Tcond, input: [Tin]) -> output: [Tout] where then_branch: func; else_branch: func; "
    "output_shapes: list(shape) = []; Tout: list(type)"
)
If = op(f"If{_IF}", shape=_if_shapes, gradient=branch_gradient, stateful=True)(_if_kernel)
StatelessIf = op(f"StatelessIf{_IF}", shape=_if_shapes, gradient=branch_gradient)(_if_kernel)


def cond(
    pred: Any,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    strict: bool = False,
    name: str | None = None,
    fn1: Callable[[], Any] | None = None,
    fn2: Callable[[], Any] | None = None,
) -> Any:
    """What `true_fn` returns if `pred` holds, else what `false_fn` returns.

    Only the chosen branch runs.

    Args:
      pred: A scalar bool tensor.
      true_fn: Builds the branch for true; returns tensors or a structure of them.
      false_fn: Builds the branch for false; returns the same structure and types.
      strict: Whether a single-element list stays a list.
      name: Name of the operation.
      fn1: The old name of `true_fn`.
      fn2: The old name of `false_fn`.
    """
    true_fn = true_fn if true_fn is not None else fn1
    false_fn = false_fn if false_fn is not None else fn2
    if true_fn is None:
        raise TypeError("cond(): true_fn argument required")
    if false_fn is None:
        raise TypeError("cond(): false_fn argument required")
    if not callable(true_fn):
        raise TypeError("'true_fn' must be callable.")
    if not callable(false_fn):
        raise TypeError("'false_fn' must be callable.")
    if isinstance(pred, bool):
        raise TypeError("'pred' must not be a Python bool.")
    with name_scope(name, "cond", [pred]) as scope:
        pred = convert_to_tensor(pred, name="pred")
        branches = [traced("cond_true", true_fn), traced("cond_false", false_fn)]
        _check_same_outputs(branches)
        if isinstance(branches[0].graph.outer, FuncGraph):
            # Not elsewhere: a branch that is not taken may read a variable without a value.
            hoisted_reads.take_out(branches)
        captures = share_captures([b.graph for b in branches])
        functions = [b.finish() for b in branches]
        with control_dependencies(outer_controls([b.graph for b in branches])):
            node = If.operation(
                pred,
                captures,
                then_branch=functions[0],
                else_branch=functions[1],
                Tout=[t.dtype.base_dtype for t in functions[0].outputs],
                name=scope,
            )
    result = branches[0].leaves.rebuild(node, node.outputs)
    if not strict and isinstance(result, list) and len(result) == 1:
        return result[0]
    return result


def _check_same_outputs(branches: list[TracedFunction]) -> None:
    first = branches[0]
    for other in branches[1:]:
        try:
            nest.assert_same_structure(first.structure, other.structure, check_types=False)
        except (ValueError, TypeError) as error:
            raise type(error)(
                f"Incompatible return types of true_fn and false_fn: {error}"
            ) from None
        a, b = first.leaves, other.leaves
        if [type(k) for k in a.kinds] != [type(k) for k in b.kinds] or len(a.tensors) != len(
            b.tensors
        ):
            raise TypeError(
                "Incompatible return types of true_fn and false_fn: "
                f"{a.describe()} and {b.describe()}"
            )
        for x, y in zip(a.tensors, b.tensors, strict=True):
            if x.dtype.base_dtype != y.dtype.base_dtype:
                raise ValueError(
                    f"Outputs of true_fn and false_fn must have the same type: "
                    f"{x.dtype.base_dtype.name}, {y.dtype.base_dtype.name}"
                )


def _case_shapes(c: ShapeContext) -> list[TensorShape]:
    if c.attrs.get("output_shapes"):
        return list(c.attr("output_shapes"))
    return _merged_shapes(c.attr("branches"), c.output_count)


def _case_kernel(
    branch_index: Any, input: list[Any], *, branches: list[Any], rng: Any, invoke: Any, check: Any
) -> list[Any]:
    last = len(branches) - 1
    if not isinstance(branch_index, jnp.ndarray):
        i = int(branch_index)
        outputs, ok = invoke(branches[i if 0 <= i <= last else last], input, rng)
    else:
        index = jnp.where((branch_index < 0) | (branch_index > last), last, branch_index)
        outputs, ok = loop_lowering.conditional(index, branches, input, rng, invoke)
    check(ok, invoke.complaint())
    return list(outputs)


_CASE = (
    "(branch_index: int32, input: [Tin]) -> output: [Tout] where branches: list(func) >= 1; "
    "output_shapes: list(shape) = []; Tout: list(type)"
)
Case = op(f"Case{_CASE}", shape=_case_shapes, gradient=branch_gradient, stateful=True)(_case_kernel)
StatelessCase = op(f"StatelessCase{_CASE}", shape=_case_shapes, gradient=branch_gradient)(
    _case_kernel
)


def switch_case(
    branch_index: Any,
    branch_fns: Any,
    default: Callable[[], Any] | None = None,
    name: str = "switch_case",
) -> Any:
    """The result of the branch with the given number, or of the default (else the last)."""
    pairs = list(branch_fns.items()) if isinstance(branch_fns, dict) else list(branch_fns)
    if pairs and not isinstance(pairs[0], list | _Tuple):
        pairs = list(enumerate(pairs))
    if not pairs:
        raise ValueError("branch_fns must not be empty")
    by_number = dict(pairs)
    if sorted(by_number) != list(range(len(by_number))):
        raise ValueError(
            f"branch indices must form contiguous range of [0 to {len(by_number)}) but found "
            f"{sorted(by_number)}"
        )
    functions = [by_number[i] for i in range(len(by_number))]
    for function in functions:
        if not callable(function):
            raise TypeError("Fn must be callable.")
    if default is not None:
        functions.append(default)
    with name_scope(name, "switch_case", [branch_index]) as scope:
        branch_index = convert_to_tensor(branch_index, dtypes.int32, name="branch_index")
        branches = [traced(f"switch_case_branch{i}", f) for i, f in enumerate(functions)]
        _check_same_outputs(branches)
        captures = share_captures([b.graph for b in branches])
        made = [b.finish() for b in branches]
        with control_dependencies(outer_controls([b.graph for b in branches])):
            node = Case.operation(
                branch_index,
                captures,
                branches=made,
                Tout=[t.dtype.base_dtype for t in made[0].outputs],
                name=scope,
            )
    return branches[0].leaves.rebuild(node, node.outputs)


def case(
    pred_fn_pairs: Any,
    default: Callable[[], Any] | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    """The result of the first function whose predicate holds, else of `default`.

    Args:
      pred_fn_pairs: (predicate, function) pairs, or a dict of them.
      default: What to call when no predicate holds; without it the last pair's function,
        after asserting that its predicate holds.
      exclusive: Whether to assert that at most one predicate holds.
      strict: As in `cond`.
      name: Name scope.
    """
    pairs = list(pred_fn_pairs.items()) if isinstance(pred_fn_pairs, dict) else list(pred_fn_pairs)
    for pair in pairs:
        if not isinstance(pair, _Tuple) or len(pair) != 2:
            raise TypeError("Each entry in pred_fn_pairs must be a 2-tuple")
        pred, function = pair
        if not isinstance(pred, Tensor) and not hasattr(pred, "_as_graph_element"):
            raise TypeError(f"pred must be Tensor, got {pred}")
        if pred.dtype.base_dtype != dtypes.bool:
            raise TypeError(f"pred must be of type bool: {pred.name}")
        if not callable(function):
            raise TypeError(f"fn for pred {pred.name} must be callable.")
    from_checks = _case_assertions(pairs, default, exclusive)
    with name_scope(name, "case", [p for p, _ in pairs]):
        if default is None:
            default = pairs[-1][1]
            pairs = pairs[:-1]

        def build(rest: list[Any]) -> Any:
            if not rest:
                assert default is not None
                return default()
            pred, function = rest[0]
            return cond(pred, function, lambda: build(rest[1:]), strict=True)

        if from_checks:
            with control_dependencies(from_checks):
                result = build(pairs)
        else:
            result = build(pairs)
    if not strict and isinstance(result, list) and len(result) == 1:
        return result[0]
    return result


def _case_assertions(pairs: list[Any], default: Any, exclusive: bool) -> list[Any]:
    preds = [convert_to_tensor(pred) for pred, _ in pairs]
    names = ", ".join(pred.name for pred in preds)
    found = []
    if exclusive or default is None:
        held = reduction.reduce_sum(cast.cast(array_join.stack(preds), dtypes.int32))
        if exclusive:
            found.append(
                assertion.Assert(
                    held < 2,
                    [
                        f"Input error: exclusive=True: more than 1 conditions ({names}) evaluated "
                        "as True:",
                        array_join.stack(preds),
                    ],
                )
            )
        if default is None:
            found.append(
                assertion.Assert(
                    held > 0,
                    [
                        f"Input error: None of the conditions ({names}) evaluated as True:",
                        array_join.stack(preds),
                    ],
                )
            )
    return found
