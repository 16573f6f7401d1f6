"""What programs take from TensorFlow's python.framework.op_def_registry."""

from typing import Any

from millrace.graph import registry


def get_registered_ops() -> dict[str, Any]:
    """The OpDefs of all op types, by name."""
    return {each.name: each.op_def() for each in registry.all_definitions()}


def get(name: str) -> Any:
    """The OpDef of an op type, or None."""
    definition = registry.find(name)
    return None if definition is None else definition.op_def()
