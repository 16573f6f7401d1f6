"""`tf.ConditionalAccumulator` and `tf.SparseConditionalAccumulator`: gradients of several workers.

The rules (which gradients are stale, who waits for how many) are in `protocol.accumulator`.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.core.dtypes import DType, as_dtype
from millrace.core.tensor_shape import TensorShape, as_shape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.define import Op, op
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, none, scalars, unknown
from millrace.graph.slices import IndexedSlices
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.cluster.padded_unique import padded_length, padding
from millrace.ops.data_flow import shared_state
from millrace.ops.data_flow.shared_state import Guarded, shape_text, type_text
from millrace.protocol import accumulator as protocol
from millrace.protocol.accumulator import AccumulatorState

__all__ = [
    "ConditionalAccumulator",
    "ConditionalAccumulatorBase",
    "SparseConditionalAccumulator",
]

_TYPES = (
    "{float32, float64, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, "
    "bfloat16, qint16, quint16, uint16, complex128, float16, uint32, uint64}"
)

# What synchronous training says of its operations, as attributes that TensorFlow ignores.

#: Of ApplyGradient: whose gradient it is. Of NumAccumulated: who begins again; it then gives 1 if
#: the next gradient of this contributor is a repeat, and 0 if not.
CONTRIBUTOR = "_contributor"
#: Of SetGlobalStep: nothing that was accumulated counts any more.
BEGINS_ROUND = "_begins_round"
#: Of SetGlobalStep: the first round of all begins, with what there is.
BEGINS_FIRST_ROUND = "_begins_first_round"
#: Of NumAccumulated: it gives -1 - (the step that the model is at), which no count is.
TELLS_STEP = "_tells_step"
#: Of NumAccumulated: what was taken last is about to be applied.
WILL_APPLY = "_will_apply"
#: Of NumAccumulated, a question about rounds: whether a standby follows (-1 if so), the step of the
#: accumulator, how often rounds were begun, at which step, and the number of a chief that goes on.
IS_FOLLOWED, STEP, BEGINNINGS = "_is_followed", "_accumulator_step", "_beginnings"
BEGAN_AT, CHIEFS = "_began_at", "_chiefs"
#: Of QueueDequeue: what it takes out is handed out when a round ends.
TOKEN = "_token_of_round"
#: Of QueueDequeueUpTo: fewer elements will do, and none is waited for.
IF_PRESENT = "_if_present"


class Accumulator(Guarded[AccumulatorState]):
    """An accumulator of a task.

    Attributes:
      dtype: The type of the gradients.
    """

    def __init__(self, state: AccumulatorState, dtype: DType) -> None:
        super().__init__(state)
        self.dtype = dtype

    def check_type(self, dtype: DType) -> None:
        """Raises ValueError unless gradients of that type are accumulated."""
        if dtype != self.dtype:
            raise ValueError(
                f"Accumulator '{self.state.name}' is of type {type_text(self.dtype)}, but the "
                f"gradient is of type {type_text(dtype)}"
            )


def describe_round(resources: Any) -> str:
    """Why there is no token for another round on a task, for a step that waits for one."""
    accumulators = [found for _, _, found in resources.all_of(Accumulator)]
    takes = [words for each in accumulators if (words := each.ask(AccumulatorState.next_take))]
    if takes:
        return f" (a token of the next round). This one waits for {takes[0]}"
    if accumulators:
        return " (a token of the next round). No chief closes this one: check that it runs"
    return " (a token of the next round)"


# -- Op types ----------------------------------------------------------------------------


def _pair(c: ShapeContext) -> TensorShape:
    # TensorFlow says so of both forms of the handle.
    return TensorShape([2])


def _maker(state: type[AccumulatorState]) -> Callable[..., Any]:
    def kernel(*, dtype: Any, shape: Any, reduction_type: bytes, ctx: Any, node: Any) -> Any:
        def make_handle() -> Any:
            handle = shared_state.name_of(ctx, node)

            def create() -> Accumulator:
                machine = state(handle.name, shape, reduction_type == b"MEAN")
                return Accumulator(machine, dtype)

            shared_state.make(Accumulator, ctx, handle, create).check_type(dtype)
            return shared_state.give_out(handle, node)

        return shared_state.once(ctx, node, make_handle)

    return kernel


def _define(text: str, kernel: Callable[..., Any], shape: Callable[..., Any], **kinds: bool) -> Op:
    return op(text, shape=shape, gradient=NO_GRADIENT, **kinds)(kernel)  # type: ignore[arg-type]


_MAKES = (
    f' where dtype: {_TYPES}; shape: shape; container: string = ""; '
    'shared_name: string = ""; reduction_type: {"MEAN", "SUM"} = "MEAN"'
)

ConditionalAccumulatorOp = _define(
    f"ConditionalAccumulator() -> handle: ref(string){_MAKES}",
    _maker(protocol.DenseAccumulatorState), _pair, host=True, stateful=True,
)  # fmt: skip
ResourceConditionalAccumulator = _define(
    f"ResourceConditionalAccumulator() -> handle: resource{_MAKES}",
    _maker(protocol.DenseAccumulatorState), _pair, host=True, stateful=True,
)  # fmt: skip
SparseConditionalAccumulatorOp = _define(
    f"SparseConditionalAccumulator() -> handle: ref(string){_MAKES}",
    _maker(protocol.SparseAccumulatorState), _pair, host=True, stateful=True,
)  # fmt: skip


def as_step(value: Any, name: str) -> int:
    """A scalar input as a number.

    Raises:
      ValueError: It is no scalar.
    """
    if value.ndim:
        raise ValueError(
            f"Argument {name} must be scalar, but had bad shape {shape_text(value.shape)}"
        )
    return int(value)


def contributor_of(node: Any) -> str:
    """Whose gradient a node applies, if it says so."""
    name: bytes = node.attrs.get(CONTRIBUTOR, b"")
    return name.decode()


def _apply(handle: Any, local_step: Any, gradient: Any, *, dtype: Any, ctx: Any, node: Any) -> None:
    accumulator = shared_state.find(Accumulator, ctx, handle)
    accumulator.check_type(dtype)
    step = as_step(local_step, "local_step")
    kept = shared_state.kept(gradient)
    contributor = contributor_of(node)
    accumulator.tell(lambda state: state.apply(kept, step, contributor))


def _take(handle: Any, num_required: Any, *, dtype: Any, ctx: Any) -> Any:
    return _submit_take(handle, num_required, dtype, ctx, lambda total: total)


def required(num_required: Any) -> int:
    """How many gradients a take wants.

    Raises:
      ValueError: The number is no scalar, or not positive.
    """
    count = as_step(num_required, "num_required")
    if count <= 0:
        raise ValueError(f"Argument num_required must be positive, but was {count}")
    return count


def _submit_take(
    handle: Any, num_required: Any, dtype: Any, ctx: Any, convert: Callable[[Any], Any]
) -> Any:
    accumulator = shared_state.find(Accumulator, ctx, handle)
    accumulator.check_type(dtype)
    take = protocol.Take(required(num_required))
    return accumulator.submit(take, ctx, lambda: words([accumulator], [take]), convert)


def words(accumulators: Sequence[Accumulator], takes: Sequence[protocol.Take]) -> str:
    """What takes wait for now; shown when the wait lasts."""
    return ", ".join(
        accumulator.ask(lambda state, take=take: state.describe(take.required))  # type: ignore[misc]
        for accumulator, take in zip(accumulators, takes, strict=True)
        if not take.done
    )


def _sparse_take(handle: Any, num_required: Any, *, dtype: Any, ctx: Any, node: Any) -> Any:
    return _submit_take(handle, num_required, dtype, ctx, conversion(node, ctx))


def conversion(node: Any, ctx: Any) -> Callable[[Any], Any]:
    """From what a take gets to the outputs of its node."""
    if not node.attrs.get("_padded"):
        return lambda total: total
    lengths = ctx.session.state_of(node, lambda: [0])

    def fill_up(total: Any) -> Any:
        """The same with padding, which its user leaves out."""
        indices, values, shape = total
        count = len(indices)
        length = lengths[0] = padded_length(count, lengths[0])
        longer = np.full(length, padding(indices.dtype))
        longer[:count] = indices
        rows = np.zeros((length, *values.shape[1:]), values.dtype)
        rows[:count] = values
        return longer, rows, shape

    return fill_up


def _sparse_apply(
    handle: Any,
    local_step: Any,
    gradient_indices: Any,
    gradient_values: Any,
    gradient_shape: Any,
    *,
    dtype: Any,
    has_known_shape: bool,
    ctx: Any,
    node: Any,
) -> None:
    accumulator = shared_state.find(Accumulator, ctx, handle)
    accumulator.check_type(dtype)
    step = as_step(local_step, "local_step")
    if node.attrs.get("_padded"):
        there = gradient_indices != padding(gradient_indices.dtype)
        gradient_indices, gradient_values = gradient_indices[there], gradient_values[there]
    gradient = (
        shared_state.kept(gradient_indices),
        shared_state.kept(gradient_values),
        gradient_shape if has_known_shape else None,
    )
    contributor = contributor_of(node)
    accumulator.tell(lambda state: state.apply(gradient, step, contributor))


def _set_global_step(handle: Any, new_global_step: Any, *, ctx: Any, node: Any) -> None:
    step = as_step(new_global_step, "new_global_step")
    accumulator = shared_state.find(Accumulator, ctx, handle)
    if node.attrs.get(BEGINS_ROUND):
        accumulator.ask(lambda state: state.begin_round(step))
    elif node.attrs.get(BEGINS_FIRST_ROUND):
        accumulator.ask(lambda state: state.begin_first_round(step))
    else:
        accumulator.ask(lambda state: state.set_global_step(step))


_ANSWERS: dict[str, Callable[[AccumulatorState], int]] = {
    IS_FOLLOWED: lambda state: 0 if state.listener is None else -1,
    STEP: lambda state: state.global_step,
    BEGINNINGS: lambda state: state.beginnings,
    BEGAN_AT: lambda state: state.began_at,
    CHIEFS: lambda state: state.chief_arrived(),
}


def _num_accumulated(handle: Any, *, ctx: Any, node: Any) -> Any:
    accumulator = shared_state.find(Accumulator, ctx, handle)
    contributor = contributor_of(node)
    if contributor:
        return accumulator.ask(lambda state: int(state.begins_again(contributor)))
    if node.attrs.get(TELLS_STEP):
        return accumulator.ask(lambda state: -1 - state.applied_step)
    if node.attrs.get(WILL_APPLY):
        accumulator.ask(lambda state: state.will_apply())
    for question, answer in _ANSWERS.items():
        if node.attrs.get(question):
            return accumulator.ask(answer)
    return accumulator.ask(lambda state: state.count)


def _take_shape(c: ShapeContext) -> TensorShape:
    c.shape("num_required").assert_has_rank(0)
    return TensorShape(None)


_GRADIENT = f"local_step: int64, gradient: dtype) where dtype: {_TYPES}"
_AVERAGE = f"num_required: int32) -> average: dtype where dtype: {_TYPES}"

AccumulatorApplyGradient = _define(
    f"AccumulatorApplyGradient(handle: ref(string), {_GRADIENT}", _apply, none, host=True
)
ResourceAccumulatorApplyGradient = _define(
    f"ResourceAccumulatorApplyGradient(handle: resource, {_GRADIENT}",
    _apply, none, host=True, stateful=True,
)  # fmt: skip
AccumulatorTakeGradient = _define(
    f"AccumulatorTakeGradient(handle: ref(string), {_AVERAGE}", _take, _take_shape, blocking=True
)
ResourceAccumulatorTakeGradient = _define(
    f"ResourceAccumulatorTakeGradient(handle: resource, {_AVERAGE}",
    _take, _take_shape, blocking=True, stateful=True,
)  # fmt: skip
AccumulatorSetGlobalStep = _define(
    "AccumulatorSetGlobalStep(handle: ref(string), new_global_step: int64)",
    _set_global_step, none, host=True,
)  # fmt: skip
ResourceAccumulatorSetGlobalStep = _define(
    "ResourceAccumulatorSetGlobalStep(handle: resource, new_global_step: int64)",
    _set_global_step, none, host=True, stateful=True,
)  # fmt: skip
AccumulatorNumAccumulated = _define(
    "AccumulatorNumAccumulated(handle: ref(string)) -> num_accumulated: int32",
    _num_accumulated, scalars, host=True,
)  # fmt: skip
ResourceAccumulatorNumAccumulated = _define(
    "ResourceAccumulatorNumAccumulated(handle: resource) -> num_accumulated: int32",
    _num_accumulated, scalars, host=True, stateful=True,
)  # fmt: skip
SparseAccumulatorApplyGradient = _define(
    "SparseAccumulatorApplyGradient(handle: ref(string), local_step: int64, "
    "gradient_indices: int64, gradient_values: dtype, gradient_shape: int64) "
    f"where dtype: {_TYPES}; has_known_shape: bool",
    _sparse_apply, none, host=True,
)  # fmt: skip
SparseAccumulatorTakeGradient = _define(
    "SparseAccumulatorTakeGradient(handle: ref(string), num_required: int32) -> "
    f"(indices: int64, values: dtype, shape: int64) where dtype: {_TYPES}",
    _sparse_take, unknown, blocking=True,
)  # fmt: skip

#: What `SparseConditionalAccumulator.take_grad` returns.
SparseGradient: Any = namedtuple(  # type: ignore[name-match]
    "SparseAccumulatorTakeGradient", ["indices", "values", "shape"]
)


# -- Python side -------------------------------------------------------------------------


def _as_step(value: Any) -> Tensor:
    return cast.cast(convert_to_tensor(value), dtypes.int64)


class ConditionalAccumulatorBase:
    """What dense and sparse accumulators share."""

    _count: Op
    _set_step: Op

    def __init__(self, dtype: Any, shape: Any, accumulator_ref: Tensor) -> None:
        """Makes an object for an existing handle.

        Args:
          dtype: The type of the gradients.
          shape: Their shape, or None.
          accumulator_ref: The handle.
        """
        self._dtype = as_dtype(dtype)
        self._shape = as_shape(shape)
        self._accumulator_ref = accumulator_ref
        self._name = accumulator_ref.op.name.split("/")[-1]

    @property
    def accumulator_ref(self) -> Tensor:
        """The handle."""
        return self._accumulator_ref

    @property
    def name(self) -> str:
        """The name of the accumulator."""
        return self._name

    @property
    def dtype(self) -> DType:
        """The type of the gradients."""
        return self._dtype

    def num_accumulated(self, name: str | None = None) -> Tensor:
        """How many gradients are accumulated."""
        return self._count(self._accumulator_ref, name=name or f"{self._name}_NumAccumulated")

    def set_global_step(self, new_global_step: Any, name: str | None = None) -> Operation:
        """An operation that sets the step before which gradients are stale."""
        return self._set_step(self._accumulator_ref, _as_step(new_global_step), name=name)


class ConditionalAccumulator(ConditionalAccumulatorBase):
    """Sums dense gradients; stale ones are dropped."""

    _count = ResourceAccumulatorNumAccumulated
    _set_step = ResourceAccumulatorSetGlobalStep

    def __init__(
        self,
        dtype: Any,
        shape: Any = None,
        shared_name: str | None = None,
        name: str = "conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> None:
        """Makes an accumulator.

        Args:
          dtype: The type of the gradients.
          shape: Their shape; None for any (but all one).
          shared_name: Sessions share the accumulator under this name.
          name: A name for the operation.
          reduction_type: "MEAN" or "SUM": what is taken.
        """
        handle = ResourceConditionalAccumulator(
            dtype=dtype,
            shape=as_shape(shape),
            shared_name=shared_name,
            reduction_type=reduction_type,
            name=name,
        )
        super().__init__(dtype, shape, handle)

    def apply_grad(self, grad: Any, local_step: Any = 0, name: str | None = None) -> Operation:
        """An operation that adds a gradient, unless `local_step` is before the global step."""
        grad = convert_to_tensor(grad, self._dtype)
        grad.shape.assert_is_compatible_with(self._shape)
        return ResourceAccumulatorApplyGradient(
            self._accumulator_ref, _as_step(local_step), grad, name=name
        )

    def take_grad(self, num_required: Any, name: str | None = None) -> Tensor:
        """The mean (or sum) of the gradients, as soon as `num_required` are there.

        Then the accumulator is empty, and its global step one higher.
        """
        taken = ResourceAccumulatorTakeGradient(
            self._accumulator_ref, num_required, dtype=self._dtype, name=name
        )
        taken.set_shape(self._shape)
        return taken


class SparseConditionalAccumulator(ConditionalAccumulatorBase):
    """Sums gradients given as rows of a larger tensor; stale ones are dropped."""

    _count = AccumulatorNumAccumulated
    _set_step = AccumulatorSetGlobalStep

    def __init__(
        self,
        dtype: Any,
        shape: Any = None,
        shared_name: str | None = None,
        name: str = "sparse_conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> None:
        """Makes an accumulator; see `ConditionalAccumulator`.

        The mean of a row is over the gradients that have this row.
        """
        handle = SparseConditionalAccumulatorOp(
            dtype=dtype,
            shape=as_shape(shape),
            shared_name=shared_name,
            reduction_type=reduction_type,
            name=name,
        )
        super().__init__(dtype, shape, handle)

    def apply_indexed_slices_grad(
        self, grad: IndexedSlices, local_step: Any = 0, name: str | None = None
    ) -> Operation:
        """`apply_grad` of an IndexedSlices."""
        return self.apply_grad(grad.indices, grad.values, grad.dense_shape, local_step, name)

    def apply_grad(
        self,
        grad_indices: Any,
        grad_values: Any,
        grad_shape: Any = None,
        local_step: Any = 0,
        name: str | None = None,
    ) -> Operation:
        """An operation that adds a gradient, unless `local_step` is before the global step.

        Args:
          grad_indices: Which rows.
          grad_values: The rows.
          grad_shape: The shape of the whole, or None.
          local_step: The step that the gradient was computed at.
          name: A name for the operation.
        """
        return SparseAccumulatorApplyGradient(
            self._accumulator_ref,
            local_step=_as_step(local_step),
            gradient_indices=cast.cast(grad_indices, dtypes.int64),
            gradient_values=convert_to_tensor(grad_values, self._dtype),
            gradient_shape=cast.cast([] if grad_shape is None else grad_shape, dtypes.int64),
            has_known_shape=grad_shape is not None,
            name=name,
        )

    def take_grad(self, num_required: Any, name: str | None = None) -> Any:
        """(indices, values, shape) of the mean or sum, as soon as `num_required` are there."""
        return SparseGradient(
            *SparseAccumulatorTakeGradient(
                self._accumulator_ref, num_required, dtype=self._dtype, name=name
            )
        )

    def take_indexed_slices_grad(self, num_required: Any, name: str | None = None) -> IndexedSlices:
        """`take_grad` as an IndexedSlices."""
        taken = self.take_grad(num_required, name)
        return IndexedSlices(taken.values, taken.indices, taken.shape)
