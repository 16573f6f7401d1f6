"""What programs take from TensorFlow's python.training.checkpoint_state_pb2 that has no public name."""

from millrace.training.checkpoint_state import CheckpointState
