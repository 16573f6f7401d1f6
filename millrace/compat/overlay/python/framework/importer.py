"""What programs take from TensorFlow's python.framework.importer that has no public name."""

from millrace.graph.import_graph_def import import_graph_def
