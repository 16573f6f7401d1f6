"""What programs take from TensorFlow's core.protobuf.tensorflow_server_pb2."""

from millrace.rpc.service_messages import ServerDef
