"""What programs take from TensorFlow's python.ops.variables that has no public name."""

from millrace.ops.partitioned_variable import PartitionedVariable
from millrace.ops.ref_variable import RefVariable
from millrace.ops.variable import Variable
