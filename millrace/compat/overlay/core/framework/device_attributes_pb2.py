"""What programs take from TensorFlow's core.framework.device_attributes_pb2."""

from millrace.rpc.service_messages import DeviceAttributes
