"""What programs take from TensorFlow's python.framework.graph_util that has no public name."""

from millrace.graph.sub_graph import tensor_shape_from_node_def_name
