"""What programs take from TensorFlow's python.framework.composite_tensor."""

from millrace.graph.slices import IndexedSlices, SparseTensor

#: For ``isinstance``.
CompositeTensor = (SparseTensor, IndexedSlices)
