"""Tensors of a graph as TensorInfo messages, and back."""

from __future__ import annotations

from typing import Any

from millrace.core import dtypes
from millrace.core.config import TensorInfo
from millrace.core.tensor_shape import unknown_shape
from millrace.graph.collection_protos import prepend_name_scope
from millrace.graph.defaults import get_default_graph
from millrace.graph.graph import Graph
from millrace.graph.slices import SparseTensor


def build_tensor_info(tensor: Any) -> TensorInfo:
    """Name, type and shape of a tensor, a sparse tensor or a variable."""
    info = TensorInfo(
        dtype=dtypes.as_dtype(tensor.dtype).as_datatype_enum,
        tensor_shape=tensor.get_shape().as_proto(),
    )
    if isinstance(tensor, SparseTensor):
        info.coo_sparse.values_tensor_name = tensor.values.name
        info.coo_sparse.indices_tensor_name = tensor.indices.name
        info.coo_sparse.dense_shape_tensor_name = tensor.dense_shape.name
    else:
        info.name = tensor.name
    return info


def build_tensor_info_from_op(op: Any) -> TensorInfo:
    """A TensorInfo that stands for an operation."""
    return TensorInfo(tensor_shape=unknown_shape().as_proto(), name=op.name)


def get_tensor_from_tensor_info(
    tensor_info: TensorInfo, graph: Graph | None = None, import_scope: str | None = None
) -> Any:
    """The tensor, or sparse tensor, that a TensorInfo means.

    Args:
      tensor_info: The message.
      graph: Where it is; the default graph by default.
      import_scope: The scope that the graph was imported under.

    Raises:
      KeyError: The graph has no such tensor.
      ValueError: The message names none.
    """
    source = graph if graph is not None else get_default_graph()

    def tensor(name: str) -> Any:
        return source.get_tensor_by_name(prepend_name_scope(name, import_scope))

    encoding = tensor_info.WhichOneof("encoding")
    if encoding == "name":
        return tensor(tensor_info.name)
    if encoding == "coo_sparse":
        parts = tensor_info.coo_sparse
        return SparseTensor(
            tensor(parts.indices_tensor_name),
            tensor(parts.values_tensor_name),
            tensor(parts.dense_shape_tensor_name),
        )
    raise ValueError(
        f"Invalid TensorInfo.encoding: {encoding}. Expected `coo_sparse` or `name` for a dense "
        "tensor."
    )


def get_element_from_tensor_info(
    tensor_info: TensorInfo, graph: Graph | None = None, import_scope: str | None = None
) -> Any:
    """The tensor or operation that a TensorInfo means."""
    source = graph if graph is not None else get_default_graph()
    return source.as_graph_element(prepend_name_scope(tensor_info.name, import_scope))
