"""What programs take from TensorFlow's python.ops.op_selector: walks over a graph."""

from collections.abc import Callable, Iterable
from typing import Any

from millrace.core import nest
from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor


def make_list_of_op(tops: Any, check_graph: bool = True, **_: Any) -> list[Operation]:
    """Operations, or those of tensors, as a list."""
    found = [getattr(each, "op", each) for each in nest.flatten(tops)]
    return list(dict.fromkeys(found))


def _walk(
    seeds: Any,
    following: Callable[[Operation], Iterable[Any]],
    inclusive: bool,
    within_ops: Any,
    stop_at_ts: Any,
) -> list[Operation]:
    start = make_list_of_op(seeds)
    within = None if within_ops is None else set(within_ops)
    stops = set(stop_at_ts)
    seen = dict.fromkeys(op for op in start if within is None or op in within)
    pending = list(seen)
    while pending:
        for each in following(pending.pop()):
            tensor, op = each if isinstance(each, tuple) else (None, each)
            if op in seen or tensor in stops or (within is not None and op not in within):
                continue
            seen[op] = None
            pending.append(op)
    return [op for op in seen if inclusive or op not in start]


def get_backward_walk_ops(
    seed_ops: Any,
    inclusive: bool = True,
    within_ops: Any = None,
    within_ops_fn: Any = None,
    stop_at_ts: Any = (),
    control_inputs: Any = False,
    only_differentiable: bool = False,
) -> list[Operation]:
    """The operations that others depend on."""

    def before(op: Operation) -> Iterable[Any]:
        inputs: list[Any] = [(tensor, tensor.op) for tensor in op.inputs]
        return [*inputs, *(op.control_inputs if control_inputs else [])]

    return _walk(seed_ops, before, inclusive, within_ops, stop_at_ts)


def get_forward_walk_ops(
    seed_ops: Any,
    inclusive: bool = True,
    within_ops: Any = None,
    within_ops_fn: Any = None,
    stop_at_ts: Any = (),
    control_outputs: Any = None,
) -> list[Operation]:
    """The operations that depend on others."""

    def behind(op: Operation) -> Iterable[Any]:
        tensors: list[Tensor] = list(op.outputs)
        return [(tensor, user) for tensor in tensors for user in tensor.consumers()]

    return _walk(seed_ops, behind, inclusive, within_ops, stop_at_ts)
