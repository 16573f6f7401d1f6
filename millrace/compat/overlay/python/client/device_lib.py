"""What programs take from TensorFlow's python.client.device_lib that has no public name."""

from millrace.client.device_lib import list_local_devices
