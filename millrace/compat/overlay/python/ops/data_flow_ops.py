"""What programs take from TensorFlow's python.ops.data_flow_ops that has no public name."""

from millrace.ops.data_flow.barrier import Barrier
from millrace.ops.data_flow.staging import BaseStagingArea, MapStagingArea, StagingArea
