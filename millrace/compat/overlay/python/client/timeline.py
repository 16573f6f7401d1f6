"""What programs take from TensorFlow's python.client.timeline that has no public name."""

from millrace.client.timeline import Timeline
