"""What programs take from TensorFlow's python.framework.ops that has no public name."""

import itertools
from typing import Any

from millrace.graph.behavior import executing_eagerly_outside_functions
from millrace.graph.collection_protos import (
    get_collection_proto_type,
    get_from_proto_function,
    get_to_proto_function,
    prepend_name_scope,
    register_proto_function,
    strip_name_scope,
)
from millrace.graph.convert import convert_n_to_tensor, register_dense_tensor_like_type
from millrace.graph.convert import convert_to_tensor as internal_convert_to_tensor
from millrace.graph.convert import is_tensor_like as is_dense_tensor_like
from millrace.graph.defaults import (
    colocate_with,
    get_all_collection_keys,
    get_default_graph,
    name_scope,
)
from millrace.graph.defaults import graph_of as _get_graph_from_inputs
from millrace.graph.function import FuncGraph
from millrace.graph.operation import Operation
from millrace.graph.registry import gradient_rule
from millrace.graph.slices import (
    IndexedSlices,
    IndexedSlicesValue,
    SparseTensor,
    convert_to_tensor_or_indexed_slices,
)
from millrace.graph.tensor import Tensor

name_scope_v1 = name_scope
internal_convert_n_to_tensor = convert_n_to_tensor
#: For ``isinstance``.
_TensorLike = (Tensor, SparseTensor, IndexedSlices)
_serials = itertools.count(1)


def uid() -> int:
    """A number that nobody else got."""
    return next(_serials)


def set_shapes_for_outputs(op: Operation) -> None:
    """Nothing: an operation has its shapes once it is built."""


class EagerTensor(Tensor):
    """No tensor of Millrace's is one: every tensor belongs to a graph."""


def inside_function() -> bool:
    """Whether the default graph is that of a function."""
    return isinstance(get_default_graph(), FuncGraph)


def get_name_scope() -> str:
    """The name scope that is open."""
    return get_default_graph().get_name_scope()


def get_gradient_function(op: Operation) -> Any:
    """The gradient function that is registered for an operation's type, or for its override.

    Raises:
      LookupError: There is none.
    """
    override = op.attrs.get("_gradient_op_type")
    return gradient_rule(override.decode() if override is not None else op.type)


def name_from_scope_name(name: str) -> str:
    """The name of an op, of the name of its scope: without the slash at its end."""
    return name.removesuffix("/")


def convert_n_to_tensor_or_indexed_slices(
    values: Any, dtype: Any = None, name: str | None = None
) -> list[Any]:
    """Each value as a tensor, as IndexedSlices if it is so already, or as None."""
    names = [None if name is None else f"{name}_{i}" for i in range(len(values))]
    return [
        None if value is None else convert_to_tensor_or_indexed_slices(value, dtype, its_name)
        for value, its_name in zip(values, names, strict=True)
    ]
