"""An error that another process told: with the operation that it names, and where that was built.

Only the process that built the graph knows the line of the program; the others know names.
"""

from __future__ import annotations

import re

from millrace.core import errors
from millrace.graph.graph import Graph

_FAILED_NODE = re.compile(r"\[\[node (?P<name>\S+) \((?P<type>\w+)\)\]\]")


#: The same, marked for TensorFlow's clients.
_MARKED_NODE = re.compile(r"\[\[\{\{node (\S+)\}\} \(")


def explained(code: int, message: str, graph: Graph | None) -> errors.OpError:
    """The error for a status, with the operation of `graph` that its message names."""
    op = None
    message = _MARKED_NODE.sub(r"[[node \1 (", message)
    named = _FAILED_NODE.search(message)
    if named is not None and graph is not None:
        op = graph._ops.get(named["name"])
        if op is not None and op.traceback:
            frame = op.traceback[-1]
            place = f" defined at {frame.filename}:{frame.lineno}]]"
            message = message[: named.end() - 2] + place + message[named.end() :]
    return errors.error_from_code(code, message, None if op is None else op.node_def, op)


#: How the runtime names the node that failed, and how TensorFlow's clients find it in a message.
_NAMED_NODE = re.compile(r"\[\[node (\S+) \(")
_MARK = r"[[{{node \1}} ("


def with_marked_node(error: errors.OpError) -> errors.OpError:
    """The error with the failed node marked as TensorFlow marks it."""
    return errors.error_from_code(
        error.error_code, _NAMED_NODE.sub(_MARK, error.message), error.node_def, error.op
    )
