"""What programs take from TensorFlow's core.framework.device_attributes_pb2 that has no public name."""

from millrace.rpc.messages import DeviceAttributes
