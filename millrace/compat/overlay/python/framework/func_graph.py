"""What programs take from TensorFlow's python.framework.func_graph that has no public name."""

from millrace.graph.function import FuncGraph
