"""What programs take from TensorFlow's python.ops.control_flow_util that has no public name."""

from typing import Any

from millrace.graph.behavior import control_flow_v2_enabled, enable_control_flow_v2

#: Whether loops and conditionals are functional ops: they always are.
ENABLE_CONTROL_FLOW_V2 = True


def _is(op: Any, *types: str) -> bool:
    return op.type in types


def IsSwitch(op: Any) -> bool:
    """Whether it is a Switch."""
    return _is(op, "Switch", "RefSwitch")


def IsMerge(op: Any) -> bool:
    """Whether it is a Merge."""
    return _is(op, "Merge", "RefMerge")


def IsLoopEnter(op: Any) -> bool:
    """Whether it is an Enter."""
    return _is(op, "Enter", "RefEnter")


def IsLoopExit(op: Any) -> bool:
    """Whether it is an Exit."""
    return _is(op, "Exit", "RefExit")


def IsInXLAContext(op: Any) -> bool:
    """False: no op is compiled apart from the others."""
    return False


def GraphOrParentsInXlaContext(graph: Any) -> bool:
    """False: no graph is."""
    return False
