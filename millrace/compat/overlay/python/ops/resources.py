"""What programs take from TensorFlow's python.ops.resources: tables, by their collections."""

from typing import Any

from millrace.graph.defaults import get_default_graph
from millrace.graph.keys import GraphKeys
from millrace.ops.array.constant import constant
from millrace.ops.control_flow.control_flow import group, no_op


def shared_resources() -> list[Any]:
    """Those that all sessions share."""
    return get_default_graph().get_collection(GraphKeys.RESOURCES)


def local_resources() -> list[Any]:
    """Those of one session."""
    return get_default_graph().get_collection(GraphKeys.LOCAL_RESOURCES)


def initialize_resources(resource_list: Any, name: str = "init") -> Any:
    """An op that initialises them."""
    made = [each.create for each in resource_list if getattr(each, "create", None) is not None]
    return group(*made, name=name) if made else no_op(name=name)


def report_uninitialized_resources(
    resource_list: Any = None, name: str = "report_uninitialized_resources"
) -> Any:
    """The names of resources that are not initialised: none, tables are when they are there."""
    return constant([], dtype="string", name=name)
