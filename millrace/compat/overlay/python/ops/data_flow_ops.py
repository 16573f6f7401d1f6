"""What programs take from TensorFlow's python.ops.data_flow_ops that has no public name."""

from millrace.ops.barrier import Barrier
from millrace.ops.staging import BaseStagingArea, MapStagingArea, StagingArea
