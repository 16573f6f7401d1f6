"""What programs take from TensorFlow's python.ops.resource_variable_ops that has no public name."""

from typing import Any

from millrace.ops.state.resource_variable import ResourceVariable

BaseResourceVariable = ResourceVariable


def is_resource_variable(var: Any) -> bool:
    """Whether it is a variable that lives behind a handle."""
    return isinstance(var, ResourceVariable)
