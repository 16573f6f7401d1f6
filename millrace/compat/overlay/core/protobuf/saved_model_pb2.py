"""What programs take from TensorFlow's core.protobuf.saved_model_pb2 that has no public name."""

from millrace.saved_model.message import SavedModel
