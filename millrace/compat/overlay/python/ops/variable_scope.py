"""What programs take from TensorFlow's python.ops.variable_scope that has no public name."""

from millrace.ops.state.variable_scope import (
    _pure_variable_scope,
    default_variable_creator,
)
from millrace.ops.state.variable_store import PartitionInfo as _PartitionInfo
from millrace.ops.state.variable_store import ReuseMode as _ReuseMode
from millrace.ops.state.variable_store import VariableStore as _VariableStore
from millrace.ops.state.variable_store import call_partitioner as _call_partitioner
