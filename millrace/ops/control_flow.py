"""Conditionals and loops as functional ops, and the small tools of ordering.

`cond` builds an If, `while_loop` a While, whose branches and bodies are functions of their
own. A pure one becomes `lax.cond`, `lax.scan` or `lax.while_loop` inside the XLA program
around it; one with state is run by the host, branch by branch and iteration by iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from millrace.core import dtypes, nest
from millrace.core.tensor_shape import TensorShape, as_shape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import (
    colocate_with,
    control_dependencies,
    device,
    get_default_graph,
    name_scope,
)
from millrace.graph.define import op
from millrace.graph.function import FuncGraph, Function, add_function, unique_function_name
from millrace.graph.operation import Operation
from millrace.graph.registry import JAX_GRADIENT, NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, none
from millrace.graph.slices import IndexedSlices
from millrace.graph.tensor import Tensor
from millrace.ops import (
    array,
    assertion,
    cast,
    comparison,
    hoisted_reads,
    loop_lowering,
    reduction,
)
from millrace.ops.structures import Leaves
from millrace.ops.xla import jax, jnp

__all__ = [
    "case",
    "cond",
    "group",
    "no_op",
    "switch_case",
    "tuple",
    "while_loop",
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
                array.identity(output_tensor.values, name=scope),
                output_tensor.indices,
                output_tensor.dense_shape,
            )
        return array.identity(convert_to_tensor(output_tensor), name=scope)


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


# -- Functions ---------------------------------------------------------------------------


def _branch(kind: str, call: Callable[[], Any]) -> _Branch:
    """Builds a function from what `call` does, capturing what it uses of the graph around."""
    outer = get_default_graph()
    graph = FuncGraph(unique_function_name(outer, kind), outer)
    # The name is taken now, so that functions built inside get others.
    root = graph.root
    root._functions[graph.name] = None
    with graph.as_default():
        structure = call()
        leaves = Leaves(structure)
    return _Branch(graph, structure, leaves)


class _Branch:
    """A function being built: its graph, and what its Python code returned."""

    def __init__(self, graph: FuncGraph, structure: Any, leaves: Leaves) -> None:
        self.graph = graph
        self.structure = structure
        self.leaves = leaves
        # What is returned as it was found outside is captured like any other use.
        leaves.tensors = [graph.capture(tensor) for tensor in leaves.tensors]
        for operation in leaves.operations:
            if operation.graph is not graph:
                graph.outer_controls.append(operation)
        leaves.operations = [o for o in leaves.operations if o.graph is graph]

    def finish(self) -> Function:
        """The function; what it captures must be complete."""
        function = Function(self.graph, self.leaves.tensors, self.leaves.operations)
        add_function(self.graph, function)
        return function


def _share_captures(graphs: Sequence[FuncGraph]) -> list[Tensor]:
    """Makes functions take the same captured tensors in the same order, and returns them."""
    wanted: dict[Tensor, None] = {}
    for graph in graphs:
        wanted.update(dict.fromkeys(graph.captures))
    for graph in graphs:
        first = len(graph.arguments) - len(graph.captures)
        for tensor in wanted:
            graph.capture(tensor)
        graph.captures = {tensor: graph.captures[tensor] for tensor in wanted}
        graph.arguments[first:] = list(graph.captures.values())
    return list(wanted)


def _outer_controls(graphs: Sequence[FuncGraph]) -> list[Operation]:
    """Operations around the functions that something inside must run after."""
    outer = graphs[0].outer
    found: dict[Operation, None] = {}
    for graph in graphs:
        for operation in graph.outer_controls:
            if operation.graph is outer:
                found[operation] = None
            elif isinstance(outer, FuncGraph):
                outer.outer_controls.append(operation)
    return list(found)


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
If = op(f"If{_IF}", shape=_if_shapes, gradient=JAX_GRADIENT, stateful=True)(_if_kernel)
StatelessIf = op(f"StatelessIf{_IF}", shape=_if_shapes, gradient=JAX_GRADIENT)(_if_kernel)


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
        branches = [_branch("cond_true", true_fn), _branch("cond_false", false_fn)]
        _check_same_outputs(branches)
        if isinstance(branches[0].graph.outer, FuncGraph):
            # Not elsewhere: a branch that is not taken may read a variable without a value.
            hoisted_reads.take_out(branches)
        captures = _share_captures([b.graph for b in branches])
        functions = [b.finish() for b in branches]
        with control_dependencies(_outer_controls([b.graph for b in branches])):
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


def _check_same_outputs(branches: list[_Branch]) -> None:
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


def _call_kernel(args: list[Any], *, f: Any, rng: Any, invoke: Any, check: Any) -> list[Any]:
    outputs, ok = invoke(f, args, rng)
    check(ok, invoke.complaint())
    return list(outputs)


def _call_shapes(c: ShapeContext) -> list[TensorShape]:
    function = c.attr("f")
    if not isinstance(function, Function):
        return [TensorShape(None)] * c.output_count
    return [tensor.shape for tensor in function.outputs]


_CALL = (
    "(args: [Tin]) -> output: [Tout] where f: func; Tin: list(type) >= 0; Tout: list(type) >= 0; "
    'config: string = ""; config_proto: string = ""; executor_type: string = ""'
)
#: A call. Wherever a step is planned, it is replaced by what the function contains.
PartitionedCall = op(f"PartitionedCall{_CALL}", shape=_call_shapes, gradient=JAX_GRADIENT)(
    _call_kernel
)
StatefulPartitionedCall = op(
    f"StatefulPartitionedCall{_CALL}", shape=_call_shapes, gradient=JAX_GRADIENT, stateful=True
)(_call_kernel)


def _symbolic_gradient_shapes(c: ShapeContext) -> list[TensorShape]:
    return [c.shape(i) for i in range(c.output_count)]


@op(
    "SymbolicGradient(input: [Tin]) -> output: [Tout] where Tin: list(type) >= 1; "
    "Tout: list(type) >= 1; f: func",
    shape=_symbolic_gradient_shapes,
    gradient=NO_GRADIENT,
)
def SymbolicGradient(
    input: list[Any], *, f: Any, Tout: list[Any], rng: Any, invoke: Any, check: Any
) -> list[Any]:
    """The gradients of a function's arguments, given those of its results."""
    args, grads = input[: len(Tout)], input[len(Tout) :]
    wrt = [i for i, dtype in enumerate(Tout) if dtype.is_floating or dtype.is_complex]

    def forward(*chosen: Any) -> Any:
        values = list(args)
        for i, value in zip(wrt, chosen, strict=True):
            values[i] = value
        outputs, ok = invoke(f, values, rng)
        return [jnp.asarray(output) for output in outputs], jnp.asarray(ok)

    vjp: Any = jax.vjp(forward, *(jnp.asarray(args[i]) for i in wrt), has_aux=True)
    _, pull_back, ok = vjp
    check(ok, invoke.complaint())
    found = dict(zip(wrt, pull_back([jnp.asarray(grad) for grad in grads]), strict=True))
    return [found.get(i, jnp.zeros_like(arg)) for i, arg in enumerate(args)]


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
Case = op(f"Case{_CASE}", shape=_case_shapes, gradient=JAX_GRADIENT, stateful=True)(_case_kernel)
StatelessCase = op(f"StatelessCase{_CASE}", shape=_case_shapes, gradient=JAX_GRADIENT)(_case_kernel)


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
        branches = [_branch(f"switch_case_branch{i}", f) for i, f in enumerate(functions)]
        _check_same_outputs(branches)
        captures = _share_captures([b.graph for b in branches])
        made = [b.finish() for b in branches]
        with control_dependencies(_outer_controls([b.graph for b in branches])):
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
        held = reduction.reduce_sum(cast.cast(array.stack(preds), dtypes.int32))
        if exclusive:
            found.append(
                assertion.Assert(
                    held < 2,
                    [
                        f"Input error: exclusive=True: more than 1 conditions ({names}) evaluated "
                        "as True:",
                        array.stack(preds),
                    ],
                )
            )
        if default is None:
            found.append(
                assertion.Assert(
                    held > 0,
                    [
                        f"Input error: None of the conditions ({names}) evaluated as True:",
                        array.stack(preds),
                    ],
                )
            )
    return found


# -- Loops -------------------------------------------------------------------------------


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
While = op(f"While{_WHILE}", shape=_while_shapes, gradient=JAX_GRADIENT, stateful=True)(
    _while_kernel
)
StatelessWhile = op(f"StatelessWhile{_WHILE}", shape=_while_shapes, gradient=JAX_GRADIENT)(
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
    variables = loop_vars if isinstance(loop_vars, list | _Tuple) else [loop_vars]
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
        if len(original) == 1 and not (isinstance(result, list | _Tuple) and len(result) == 1):
            result = [result]
        packed = list(result) if isinstance(result, list | _Tuple) else [result]
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
        captures = _share_captures([condition.graph, body.graph])
        body.leaves.tensors.extend(body.graph.captures.values())
        functions = [condition.finish(), body.finish()]
        keywords: dict[str, Any] = {"_shapes_vary": True} if self._vary else {}
        with control_dependencies(_outer_controls([condition.graph, body.graph])):
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
            outputs = [array.stop_gradient(t) for t in outputs]
        assert outer is node.graph
        return self._initial.rebuild(node, outputs)

    def _trace(self, kind: str, call: Callable[..., Any]) -> _Branch:
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
        return _Branch(graph, structure, leaves)

    def _call_body(self, *values: Any) -> Any:
        result = self._body(*values)
        if isinstance(result, list | _Tuple) and not hasattr(result, "_fields"):
            single = len(self._variables) == 1 and len(result) != 1
            packed = [result] if single else list(result)
        else:
            packed = [result]
        return packed

    def _check_body(self, body: _Branch) -> None:
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
    if isinstance(invariants, TensorShape) or invariants is None:
        return [invariants]
    if (
        isinstance(invariants, list | _Tuple)
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
