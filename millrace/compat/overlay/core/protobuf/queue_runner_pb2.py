"""What programs take from TensorFlow's core.protobuf.queue_runner_pb2 that has no public name."""

from millrace.training.input.queue_runner import QueueRunnerDef
