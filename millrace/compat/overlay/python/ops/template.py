"""What programs take from TensorFlow's python.ops.template that has no public name."""

from millrace.ops.state.template import Template
