"""What programs take from TensorFlow's python.framework.device that has no public name."""

from millrace.core.device_spec import DeviceSpec, canonical_name, merge_device
