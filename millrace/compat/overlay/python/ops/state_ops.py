"""What programs take from TensorFlow's python.ops.state_ops that has no public name."""

from typing import Any

from millrace.ops.state.ref_variable import RefVariable


def is_variable_initialized(ref: Any, name: str | None = None) -> Any:
    """Whether the variable has a value, as a tensor."""
    return ref._is_initialized(name=name)
