"""What programs take from TensorFlow's python.client.session that has no public name."""

from millrace.client.fetches import register_session_run_conversion_functions
from millrace.client.session import BaseSession
