"""What programs take from TensorFlow's core.framework.device_attributes_pb2."""

from millrace.rpc.messages import DeviceAttributes
