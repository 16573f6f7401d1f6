"""What is asked of a graph that came over the network, before it is run.

A client of this process may run anything: it could do so without a graph. One from elsewhere may
not run Python of this process, nor make it plan a graph without end.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator

from tensorboard.compat.proto import graph_pb2, node_def_pb2, tensor_pb2

from millrace.core import dtypes, errors
from millrace.core.convert import Array
from millrace.core.tensor_proto import make_ndarray
from millrace.graph import registry
from millrace.graph.function import Function
from millrace.graph.graph import Graph
from millrace.graph.operation import Operation
from millrace.passes.node import Node
from millrace.platform import limits
from millrace.platform.collector import LARGE_HEAP
from millrace.rpc.callers import host_of
from millrace.runtime import memory

#: A tensor with fewer elements is not looked at: it fits.
_SMALL_TENSOR = 1 << 20
#: A node of fewer bytes has short names, few inputs and short lists.
_SMALL_NODE = 1 << 13
#: Ops that call a function of the process that runs them.
PYTHON_OPS = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})


def check_no_python(nodes: Iterable[Node]) -> None:
    """Checks that no node, nor a function that one calls, runs Python.

    Raises:
      PermissionDeniedError: One does.
    """
    for node in nodes:
        if node.type in PYTHON_OPS:
            raise _runs_python(node.name, node.type, node.source)
        for function in _functions_in(node):
            _check_no_python_in(function, node, set())


def _functions_in(node: Node | Operation) -> Iterator[Function]:
    """The functions among the attributes of a node or operation, whatever it does with them."""
    for value in node.attrs.values():
        for each in value if isinstance(value, list) else (value,):
            if isinstance(each, Function):
                yield each


def _check_no_python_in(function: Function, caller: Node | Operation, seen: set[str]) -> None:
    if function.name in seen:
        return
    seen.add(function.name)
    for op in function.graph.get_operations():
        if op.type in PYTHON_OPS:
            raise _runs_python(f"{caller.name}/{op.name}", op.type, op)
        for inner in _functions_in(op):
            _check_no_python_in(inner, caller, seen)


def _runs_python(name: str, kind: str, source: Operation | None) -> errors.PermissionDeniedError:
    return errors.PermissionDeniedError(
        None,
        source,
        f"{name} ({kind}) runs a Python function, which a server does for clients of its own "
        "process only: the function is not part of the graph. Place the op on the task of the "
        "process that made it, or feed what it returns.",
    )


class ClientGraph:
    """The graph of a remote client in this process.

    Attributes:
      operations: Its operations, which others add.
    """

    def __init__(self) -> None:
        self.operations = Graph()
        self.operations._is_clients = True
        self._nodes = 0
        self._bytes = 0
        self._is_held = False

    def admit(self, graph_def: graph_pb2.GraphDef) -> None:
        """Checks and counts what the client wants to add.

        Raises:
          ResourceExhaustedError: It is too much; then it is not counted.
        """
        library = graph_def.library.function
        nodes, size = self._nodes, self._bytes
        most_nodes, most_bytes = limits.GRAPH_NODES.value, limits.GRAPH_BYTES.value
        for nodes_of in (graph_def.node, *(f.node_def for f in library)):
            nodes += len(nodes_of)  # before any is looked at
            limits.GRAPH_NODES.check(nodes, "Nodes of the session's graph")
            for node in nodes_of:
                bytes_of = node.ByteSize()
                size += bytes_of
                nodes += _outputs(node) - 1
                if nodes > most_nodes:
                    raise limits.GRAPH_NODES.error(nodes, "Nodes of the session's graph")
                if size > most_bytes:
                    raise limits.GRAPH_BYTES.error(size, "Bytes of the session's graph")
                if bytes_of > _SMALL_NODE:
                    _check_counts(node)
                    _check_names(node)
                _check_attrs(node)
        self._nodes, self._bytes = nodes, size
        if not self._is_held:
            self._is_held = True
            LARGE_HEAP.hold()

    def let_go(self) -> None:
        """Nobody uses it any more."""
        if self._is_held:
            self._is_held = False
            LARGE_HEAP.release()
        self.operations.take_apart()


def _check_counts(node: node_def_pb2.NodeDef) -> None:
    """Inputs, outputs and members of lists are gone through in one call, again and again."""
    lists = (attr.list for attr in node.attr.values() if attr.WhichOneof("value") == "list")
    members = (len(values) for each in lists for _, values in each.ListFields())
    most = max(len(node.input), _outputs(node), *members, 0)
    if most > limits.NODE_INPUTS.value:
        raise limits.NODE_INPUTS.error(most, f"Inputs of the node {node.name[:200]!r} ({node.op})")


def _check_names(node: node_def_pb2.NodeDef) -> None:
    longest = max(len(node.name), len(node.device), *map(len, node.input), 0)
    if longest > limits.NAME_BYTES.value:
        raise limits.NAME_BYTES.error(longest, f"A name of the node {node.name[:40]!r}")


def machine_of(client: str) -> str:
    """The machine in the name that a master tells of a client: all clients there count as one."""
    name, at, master = client.partition(" at ")  # as on loopback, where a name is a connection's
    return host_of(name) + at + master


class SessionQuota:
    """Which machine's client has which session.

    Args:
      is_open: Whether a session is still there.
    """

    def __init__(self, is_open: Callable[[str], bool]) -> None:
        self._is_open = is_open
        self._lock = threading.Lock()
        self._hosts: dict[str, str] = {}

    def check(self, host: str) -> None:
        """Checks that a machine's clients may have one more.

        Raises:
          ResourceExhaustedError: They have as many as they may.
        """
        with self._lock:
            for handle in [h for h in self._hosts if not self._is_open(h)]:
                del self._hosts[handle]
            count = sum(owner == host for owner in self._hosts.values())
        limits.SESSIONS_PER_CLIENT.check(count + 1, f"Open sessions of clients at {host}")

    def note(self, handle: str, host: str) -> None:
        """A machine's client has one more."""
        with self._lock:
            self._hosts[handle] = host


def read_tensor(proto: tensor_pb2.TensorProto) -> Array:
    """The value of a tensor that a client sent.

    Raises:
      ResourceExhaustedError: It is a few bytes that stand for more memory than the task has.
    """
    check_tensor(proto, "A tensor that is fed")
    return make_ndarray(proto)


def check_tensor(proto: tensor_pb2.TensorProto, what: str) -> None:
    """Checks that a TensorProto's value can fit: one number may stand for any shape.

    Raises:
      ResourceExhaustedError: It cannot.
    """
    count = math.prod(dim.size for dim in proto.tensor_shape.dim)
    if count > _SMALL_TENSOR:
        try:
            dtype = dtypes.as_dtype(proto.dtype).base_dtype
        except TypeError:
            return  # It will be refused for that.
        try:
            memory.check_size(count, dtype, [dim.size for dim in proto.tensor_shape.dim])
        except errors.ResourceExhaustedError as error:
            raise errors.ResourceExhaustedError(None, None, f"{what}: {error.message}") from None


def _check_attrs(node: node_def_pb2.NodeDef) -> None:
    for attr in node.attr.values():
        kind = attr.WhichOneof("value")
        if kind == "tensor":
            check_tensor(attr.tensor, f"{node.name} ({node.op})")
        elif kind == "list":
            for tensor in attr.list.tensor:
                check_tensor(tensor, f"{node.name} ({node.op})")


def _outputs(node: node_def_pb2.NodeDef) -> int:
    """How many outputs a NodeDef stands for, at least 1: a number of it may say any."""
    definition = registry.find(node.op)
    count = 0
    for arg in definition.signature.outputs if definition is not None else ():
        if arg.number_attr is not None and arg.number_attr in node.attr:
            count += node.attr[arg.number_attr].i
    return max(1, count)
