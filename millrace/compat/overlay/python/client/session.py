"""What programs take from TensorFlow's python.client.session that has no public name."""

from millrace.client.session import BaseSession
