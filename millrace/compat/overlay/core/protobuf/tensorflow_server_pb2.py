"""What programs take from TensorFlow's core.protobuf.tensorflow_server_pb2 that has no public name."""

from millrace.rpc.messages import ServerDef
