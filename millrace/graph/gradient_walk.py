"""Reverse-mode differentiation over the graph.

The walk works on *units*: single operations, and whole loops, which control flow hands in as
one unit each (`register_unit_finder`). It visits units from the ys towards the xs, each when
all that reads its outputs has been visited, and asks the unit for the gradients of its
inputs. It only builds graph: kernels and jax stay out of here.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from millrace.core import dtypes
from millrace.graph import registry
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.graph import Graph
from millrace.graph.operation import Operation
from millrace.graph.registry import JAX_GRADIENT, NO_GRADIENT
from millrace.graph.slices import (
    IndexedSlices,
    convert_to_tensor_or_indexed_slices,
)
from millrace.graph.tensor import Tensor

#: Ops whose gradient is built of that of their bodies: what has no gradient stays so inside.
WITH_BODIES = frozenset(("If", "StatelessIf", "Case", "StatelessCase", "While", "StatelessWhile"))


class AggregationMethod:
    """How gradients that meet at one tensor are added up."""

    ADD_N = 0
    DEFAULT = ADD_N
    EXPERIMENTAL_TREE = 1
    EXPERIMENTAL_ACCUMULATE_N = 2


class Unit(Protocol):
    """Something that the walk can differentiate as a whole."""

    @property
    def inputs(self) -> Sequence[Tensor]:
        """What it reads from outside of itself."""

    @property
    def outputs(self) -> Sequence[Tensor]:
        """What it gives to the outside."""


#: ``(op, region) -> unit``; `region` is the control-flow context that the walk happens in.
UnitFinder = Callable[[Operation, Any], Any]
_unit_finders: list[UnitFinder] = []


def register_unit_finder(finder: UnitFinder) -> None:
    """Registers how control flow groups operations into units (first non-None answer wins)."""
    _unit_finders.append(finder)


def unit_of(op: Operation, region: Any) -> Any:
    """The unit that `op` belongs to, seen from `region`: itself, or the loop around it."""
    if op._control_flow_context is not None:
        for finder in _unit_finders:
            unit = finder(op, region)
            if unit is not None:
                return unit
    return op


def is_trainable(tensor: Any) -> bool:
    """Whether gradients can flow through a tensor of this type."""
    dtype = tensor.dtype.base_dtype
    if dtype == dtypes.resource and tensor.handle_data is not None:
        dtype = tensor.handle_data[1].base_dtype
        return bool(dtype.is_floating or dtype.is_complex)
    return bool(dtype.is_floating or dtype.is_complex) or dtype == dtypes.variant


def gradients(
    ys: Sequence[Any],
    xs: Sequence[Any],
    grad_ys: Sequence[Any] | None,
    *,
    name: str,
    colocate_gradients_with_ops: bool,
    gate_gradients: bool,
    aggregation_method: int | None,
    stop_gradients: Sequence[Any],
    graph: Graph,
) -> list[Any]:
    """The gradients of the sum of `ys` with respect to each of `xs`.

    Returns:
      A tensor, an IndexedSlices, or None (not connected) for each x.
    """
    with name_scope(name, "gradients", [*ys, *xs, *stop_gradients, *(grad_ys or [])]) as scope:
        y_tensors = [convert_to_tensor_or_indexed_slices(y, name="y") for y in ys]
        x_tensors = [_handle_or_tensor(x) for x in xs]
        stops = {_handle_or_tensor(x).op for x in stop_gradients}
        walk = _Walk(
            graph,
            graph._control_flow_context,
            x_tensors,
            colocate=colocate_gradients_with_ops,
            gate=gate_gradients,
            aggregation=aggregation_method or AggregationMethod.DEFAULT,
            scope=scope,
        )
        y_plain = [y.values if isinstance(y, IndexedSlices) else y for y in y_tensors]
        return walk.run(y_plain, _initial_gradients(y_tensors, grad_ys, walk), stops)


def _handle_or_tensor(x: Any) -> Tensor:
    handle = getattr(x, "handle", None)
    if isinstance(handle, Tensor):
        return handle
    return convert_to_tensor(x, name="x", as_ref=True)


def _build(op_type: str, *args: Any, **keywords: Any) -> Any:
    return registry.lookup(op_type)(*args, **keywords)  # type: ignore[operator]


def ones_like(tensor: Tensor, name: str) -> Tensor:
    """Ones in the shape of `tensor`, with TensorFlow's names: `name` and ``name/Const``."""
    sizes = tensor.shape
    if sizes.is_fully_defined():
        known = [size for size in sizes.as_list() if size is not None]
        shape = convert_to_tensor(np.array(known, np.int32), name="Shape")
    else:
        shape = _build("Shape", tensor)
    with name_scope(name) as scope:
        one = convert_to_tensor(1, dtype=tensor.dtype.base_dtype, name="Const")
        result: Tensor = _build("Fill", shape, one, name=scope)
    return result


def zeros_like(tensor: Tensor) -> Tensor:
    """Zeros in the shape of `tensor`; for a resource, in that of its variable."""
    if tensor.dtype.base_dtype == dtypes.resource:
        assert tensor.handle_data is not None
        shape, dtype = _build("VariableShape", tensor), tensor.handle_data[1]
        zero = convert_to_tensor(0, dtype=dtype.base_dtype)
        result: Tensor = _build("Fill", shape, zero)
        return result
    result = _build("ZerosLike", tensor)
    return result


def _initial_gradients(ys: list[Any], grad_ys: Sequence[Any] | None, walk: _Walk) -> list[Any]:
    given = list(grad_ys) if grad_ys is not None else [None] * len(ys)
    if len(given) != len(ys):
        raise ValueError(f"Passed {len(given)} grad_ys for {len(ys)} ys")
    given = [
        None if grad is None else convert_to_tensor_or_indexed_slices(grad, name=f"grad_y_{i}")
        for i, grad in enumerate(given)
    ]
    result: list[Any] = []
    for i, (y, grad) in enumerate(zip(ys, given, strict=True)):
        with walk.device_of(y.op):
            if grad is None:
                if y.dtype.base_dtype.is_complex:
                    raise TypeError(
                        "Gradients of complex tensors must set grad_ys "
                        f"(y.dtype = {y.dtype.base_dtype!r})"
                    )
                y = y.values if isinstance(y, IndexedSlices) else y
                result.append(ones_like(y, f"grad_ys_{i}"))
                continue
            _check_grad_type(y, grad)
            result.append(_named(grad, f"grad_ys_{i}"))
    return result


def _named(grad: Any, name: str) -> Any:
    """A gradient that was given, under the name that TensorFlow gives it."""
    if not isinstance(grad, IndexedSlices):
        return _build("Identity", grad, name=name)
    parts = {"indices": grad.indices, "values": grad.values, "shape": grad.dense_shape}
    named: dict[str, Any] = {
        which: None if part is None else _build("Identity", part, name=f"{name}_{which}")
        for which, part in parts.items()
    }
    return IndexedSlices(named["values"], named["indices"], named["shape"])


def _check_grad_type(y: Any, grad: Any) -> None:
    y_type, grad_type = y.dtype.base_dtype, grad.dtype.base_dtype
    if (y_type.is_floating or y_type.is_integer) and not (
        grad_type.is_floating or grad_type.is_integer
    ):
        raise TypeError(
            f"Gradient type {grad_type.name} generated for real or integer-valued tensor {y} with "
            f"type {y_type.name} must be real or integer"
        )
    if y_type.is_complex and not grad_type.is_complex:
        raise TypeError(
            f"Gradient type {grad_type.name} generated for complex-valued tensor {y} with type "
            f"{y_type.name} must be complex"
        )
    y_shape = y.values.shape if isinstance(y, IndexedSlices) else y.shape
    if isinstance(grad, Tensor) and not y_shape.is_compatible_with(grad.shape):
        raise ValueError(
            f"Gradient of shape {grad.shape} was given in grad_ys for {y.name} of shape {y_shape}"
        )


class _Walk:
    """One call of `gradients`."""

    def __init__(
        self,
        graph: Graph,
        region: Any,
        xs: list[Tensor],
        *,
        colocate: bool,
        gate: bool,
        aggregation: int,
        scope: str,
    ) -> None:
        self._graph = graph
        self._region = region
        self._xs = xs
        self._colocate = colocate
        self._gate = gate
        self._aggregation = aggregation
        self._scope = scope
        #: Gradients that arrived at a tensor and are not added up yet.
        self._grads: dict[Tensor, list[Any]] = {}
        self._units: dict[Operation, Any] = {}
        #: Inside a branch or loop body: what its arguments were captured from, and back.
        self._captured: dict[Operation, Tensor] = {}
        self._capturing: dict[Tensor, list[Operation]] = {}
        inner: Any = graph
        while (captures := getattr(inner, "captures", None)) is not None:
            for outer_tensor, argument in captures.items():
                self._captured[argument.op] = outer_tensor
                self._capturing.setdefault(outer_tensor, []).append(argument.op)
            inner = inner.outer

    def _inputs(self, unit: Any) -> Sequence[Tensor]:
        """What a unit reads; a captured argument reads what it was captured from."""
        if unit in self._captured:
            return [self._captured[unit]]
        inputs: Sequence[Tensor] = unit.inputs
        return inputs

    def _consumers(self, tensor: Tensor) -> list[Operation]:
        return [*tensor._consumers, *self._capturing.get(tensor, ())]

    def _unit(self, op: Operation) -> Any:
        unit = self._units.get(op)
        if unit is None:
            unit = self._units[op] = unit_of(op, self._region)
        return unit

    def run(self, ys: list[Tensor], grad_ys: list[Any], stops: set[Operation]) -> list[Any]:
        """Walks from ys to xs."""
        x_units = {self._unit(x.op) for x in self._xs}
        between = self._between(ys, x_units)
        pending = self._pending_counts(between)
        stop_units = {self._unit(op) for op in stops} | self._terminal_units(x_units, between)
        for y, grad in zip(ys, grad_ys, strict=True):
            self._grads.setdefault(y, []).append(grad)
        queue: deque[Any] = deque()
        queued: set[Any] = set()
        for y in ys:
            unit = self._unit(y.op)
            if pending.get(unit, 0) == 0 and unit not in queued:
                queued.add(unit)
                queue.append(unit)
        done: dict[Tensor, Any] = {}
        while queue:
            unit = queue.popleft()
            out_grads = [self._aggregate(t) for t in unit.outputs]
            for tensor, grad in zip(unit.outputs, out_grads, strict=True):
                done[tensor] = grad
            unit_inputs = self._inputs(unit)
            in_grads: Sequence[Any] = [None] * len(unit_inputs)
            if unit not in stop_units and any(
                grad is not None and is_trainable(tensor)
                for tensor, grad in zip(unit.outputs, out_grads, strict=True)
            ):
                in_grads = self._unit_gradient(unit, out_grads)
            for tensor, grad in zip(unit_inputs, in_grads, strict=True):
                if grad is not None:
                    self._grads.setdefault(tensor, []).append(grad)
            for tensor in unit_inputs:
                source = self._unit(tensor.op)
                if source not in pending:
                    continue
                pending[source] -= 1
                if pending[source] == 0 and source not in queued:
                    queued.add(source)
                    queue.append(source)
        return [done[x] if x in done else self._aggregate(x) for x in self._xs]

    def _between(self, ys: list[Tensor], x_units: set[Any]) -> set[Any]:
        """Units on a path from an x to a y (both ends included)."""
        reached: set[Any] = set()
        frontier = list(x_units)
        while frontier:
            unit = frontier.pop()
            if unit in reached:
                continue
            reached.add(unit)
            for tensor in unit.outputs:
                if is_trainable(tensor) or tensor in self._xs:
                    frontier.extend(self._unit(c) for c in self._consumers(tensor))
        between: set[Any] = set()
        frontier = [self._unit(y.op) for y in ys]
        while frontier:
            unit = frontier.pop()
            if unit in between or unit not in reached:
                continue
            between.add(unit)
            frontier.extend(self._unit(t.op) for t in self._inputs(unit))
        # A y that is itself an x counts even when nothing lies between.
        between.update(u for y in ys if (u := self._unit(y.op)) in x_units)
        return between

    def _pending_counts(self, between: set[Any]) -> dict[Any, int]:
        pending = dict.fromkeys(between, 0)
        for unit in between:
            for tensor in self._inputs(unit):
                source = self._unit(tensor.op)
                if source in pending:
                    pending[source] += 1
        return pending

    def _terminal_units(self, x_units: set[Any], between: set[Any]) -> set[Any]:
        """Units of xs behind which no other x lies: no need to go on there."""
        return {
            unit
            for unit in x_units
            if not any(self._unit(t.op) in between for t in self._inputs(unit))
        }

    def _unit_gradient(self, unit: Any, out_grads: list[Any]) -> Sequence[Any]:
        if not isinstance(unit, Operation):
            result: Sequence[Any] = unit.gradient(out_grads, self)
            return result
        if unit in self._captured:
            return out_grads
        rule = gradient_rule(unit)
        if rule is NO_GRADIENT:
            return [None] * len(unit.inputs)
        if unit.type not in WITH_BODIES:
            out_grads = [
                zeros_like(tensor) if grad is None and is_trainable(tensor) else grad
                for tensor, grad in zip(unit.outputs, out_grads, strict=True)
            ]
        with (
            self._graph.name_scope(f"{unit.name}_grad"),
            self.device_of(unit),
            self._scope_guard(unit),
        ):
            in_grads = rule(unit, *out_grads)
        if isinstance(in_grads, Tensor | IndexedSlices) or in_grads is None:
            in_grads = [in_grads]
        in_grads = list(in_grads)
        if len(in_grads) != len(unit.inputs):
            raise ValueError(
                f"Num gradients {len(in_grads)} generated for op {unit.node_def} do not match num "
                f"inputs {len(unit.inputs)}"
            )
        self._verify(unit, in_grads)
        if self._gate:
            in_grads = self._gated(in_grads)
        return in_grads

    @contextlib.contextmanager
    def _scope_guard(self, unit: Operation) -> Any:
        original = self._graph._control_flow_context
        try:
            yield
        finally:
            self._graph._control_flow_context = original

    def _gated(self, in_grads: list[Any]) -> list[Any]:
        """Ties the gradients of one op together: none is used before all are computed."""
        present = [g for g in in_grads if g is not None]
        if len(present) <= 1 or not all(isinstance(g, Tensor) for g in present):
            return in_grads
        with self._graph.control_dependencies([g.op for g in present]):
            tied = iter([_build("Identity", g) for g in present])
        return [None if g is None else next(tied) for g in in_grads]

    def _verify(self, unit: Operation, in_grads: list[Any]) -> None:
        for tensor, grad in zip(unit.inputs, in_grads, strict=True):
            if isinstance(grad, Tensor) and tensor.dtype.base_dtype != dtypes.resource:
                if grad.dtype.base_dtype != tensor.dtype.base_dtype:
                    raise TypeError(
                        f"Gradient of {unit.name} ({unit.type}) for {tensor.name} has type "
                        f"{grad.dtype.base_dtype.name}, expected {tensor.dtype.base_dtype.name}"
                    )
                try:
                    grad.set_shape(tensor.shape)
                except ValueError:
                    raise ValueError(
                        "Incompatible shapes between op input and calculated input gradient. "
                        f"Forward operation: {unit.name}. Input: {tensor.name} of shape "
                        f"{tensor.shape}; gradient of shape {grad.shape}."
                    ) from None

    def device_of(self, op: Operation) -> Any:
        """The scope for ops made on behalf of `op`."""
        if not self._colocate:
            return contextlib.nullcontext()
        return self._graph.colocate_with(op, ignore_existing=True)

    def _aggregate(self, tensor: Tensor) -> Any:
        parts = [g for g in self._grads.pop(tensor, []) if g is not None]
        if not parts:
            return None
        if len(parts) == 1:
            return parts[0]
        # The sum belongs where its tensor is made.
        with self.device_of(tensor.op):
            result = add_gradients(parts, self._aggregation)
        return result


def add_gradients(parts: list[Any], aggregation: int = AggregationMethod.DEFAULT) -> Any:
    """The sum of tensors and IndexedSlices; IndexedSlices when all of them are."""
    if all(isinstance(p, IndexedSlices) for p in parts):
        return _concatenate_slices(parts)
    dense = [convert_to_tensor(p) for p in parts]
    if aggregation == AggregationMethod.EXPERIMENTAL_TREE:
        total = dense[0]
        for part in dense[1:]:
            total = _build("AddV2", total, part)
        return total
    return _build("AddN", dense)


def _concatenate_slices(parts: list[IndexedSlices]) -> IndexedSlices:
    """Slices of all parts, one after the other: repeated positions add up anyway."""
    values = _build("ConcatV2", [p.values for p in parts], 0)
    kinds = {p.indices.dtype for p in parts}
    indices = [p.indices for p in parts]
    if len(kinds) > 1:
        indices = [
            i if i.dtype == dtypes.int64 else _build("Cast", i, DstT=dtypes.int64) for i in indices
        ]
    shape = next((p.dense_shape for p in parts if p.dense_shape is not None), None)
    return IndexedSlices(values, _build("ConcatV2", indices, 0), shape)


def gradient_rule(op: Operation) -> Any:
    """The function ``(op, *out_grads) -> in_grads`` for an operation, or NO_GRADIENT.

    Raises:
      LookupError: Its op type has no gradient defined.
    """
    override = op.attrs.get("_gradient_op_type")
    try:
        rule = registry.gradient_rule(override.decode() if override else op.type)
    except LookupError:
        raise LookupError(
            f"No gradient defined for operation '{op.name}' (op type: {op.type}). In general "
            "every operation must have an associated `@tf.RegisterGradient` for correct "
            "autodiff, which this op is lacking."
        ) from None
    if rule is JAX_GRADIENT:
        if _jax_gradient is None:
            raise LookupError(f"'{op.name}' needs the generic gradient op, which is not loaded")
        return _jax_gradient
    return rule


def has_no_gradient(op: Operation) -> bool:
    """Whether nothing flows back through an operation."""
    try:
        return gradient_rule(op) is NO_GRADIENT
    except LookupError:
        return False  # Who differentiates it is told.


_jax_gradient: Callable[..., Any] | None = None


def register_jax_gradient(function: Callable[..., Any]) -> None:
    """Registers what builds the gradient of ops that state `JAX_GRADIENT`."""
    global _jax_gradient
    _jax_gradient = function
