"""What programs take from TensorFlow's python.framework.graph_util_impl that has no public name."""

from millrace.graph.sub_graph import node_name as _node_name
