"""What programs take from TensorFlow's python.framework.tensor_util that has no public name."""

from millrace.core.tensor_proto import make_ndarray as MakeNdarray
from millrace.graph.constant_value import constant_value, constant_value_as_shape
from millrace.graph.slices import is_tensor
from millrace.ops.random.random import shape_tensor
