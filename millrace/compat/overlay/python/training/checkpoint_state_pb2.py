"""What programs take from TensorFlow's python.training.checkpoint_state_pb2."""

from millrace.training.checkpoint.state import CheckpointState
