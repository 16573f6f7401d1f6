"""What programs take from TensorFlow's python.ops.variables that has no public name."""

from millrace.ops.state.partitioned_variable import PartitionedVariable
from millrace.ops.state.ref_variable import RefVariable
from millrace.ops.state.variable import Variable
