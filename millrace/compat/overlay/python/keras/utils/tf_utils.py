"""What programs take from TensorFlow's python.keras.utils.tf_utils."""

from collections.abc import Iterable
from typing import Any

from millrace.core import nest
from millrace.graph.constant_value import constant_value
from millrace.graph.slices import is_tensor as is_tensor_or_variable
from millrace.graph.tensor import Tensor
from millrace.keras.engine.naming import smart_cond


def get_reachable_from_inputs(inputs: Iterable[Any], targets: Any = None) -> set[Any]:
    """The tensors and operations that depend on inputs, up to the targets."""
    wanted = set(nest.flatten(targets)) if targets is not None else set()
    pending = list(nest.flatten(list(inputs)))
    reached: set[Any] = set(pending)
    while pending:
        value = pending.pop()
        if isinstance(value, Tensor):
            following: Iterable[Any] = value.consumers()
        else:
            following = getattr(value, "outputs", [])
        for each in following:
            if each not in reached:
                reached.add(each)
                pending.append(each)
        if wanted and wanted <= reached:
            break
    return reached


#: Classes of libraries whose instances count as tensors of a graph.
_registered_types: list[type] = []


def register_symbolic_tensor_type(cls: type) -> None:
    """Lets `is_symbolic_tensor` hold for the instances of a class."""
    _registered_types.append(cls)


def is_symbolic_tensor(tensor: Any) -> bool:
    """Whether it is a tensor of a graph, as all are, or of a type that was registered as one."""
    return isinstance(tensor, (Tensor, *_registered_types))


def is_tensor_or_tensor_list(v: Any) -> bool:
    """Whether it is a tensor, or a list that begins with one."""
    leaves = nest.flatten(v)
    return bool(leaves) and isinstance(leaves[0], Tensor)


def dataset_is_infinite(dataset: Any) -> Any:
    """Whether a dataset never ends, as a tensor."""
    from millrace.data import experimental

    return experimental.cardinality(dataset) == experimental.INFINITE_CARDINALITY
