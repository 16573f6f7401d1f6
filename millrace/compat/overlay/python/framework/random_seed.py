"""What programs take from TensorFlow's python.framework.random_seed that has no public name."""

from millrace.graph.random_seed import DEFAULT_GRAPH_SEED
