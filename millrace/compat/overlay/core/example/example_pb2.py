"""What programs take from TensorFlow's core.example.example_pb2 that has no public name."""

from millrace.data.example import Example, SequenceExample
