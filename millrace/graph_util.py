"""`tf.graph_util`."""

from millrace.graph.freeze import convert_variables_to_constants
from millrace.graph.import_graph_def import import_graph_def
from millrace.graph.sub_graph import (
    extract_sub_graph,
    must_run_on_cpu,
    remove_training_nodes,
    tensor_shape_from_node_def_name,
)

__all__ = [
    "convert_variables_to_constants",
    "extract_sub_graph",
    "import_graph_def",
    "must_run_on_cpu",
    "remove_training_nodes",
    "tensor_shape_from_node_def_name",
]
