"""What fetching `tf.get_session_handle` gives: a value that stays in its session."""

from __future__ import annotations

import contextlib
import weakref
from typing import Any

from millrace.core.dtypes import DType
from millrace.graph.graph import Graph
from millrace.ops.data_flow import session_handles

#: Op types whose string result stands for a kept tensor.
HANDLE_OPS = frozenset(("GetSessionHandle",))

#: For each graph the (placeholder, tensor) pairs that read handles, by type and device.
_readers: weakref.WeakKeyDictionary[Graph, dict[Any, Any]] = weakref.WeakKeyDictionary()


class TensorHandle:
    """Names a tensor that a session keeps. Dropping the last reference lets the session forget it.

    Attributes:
      handle: The name, for `tf.get_session_tensor` and `tf.delete_session_tensor`.
    """

    def __init__(self, handle: bytes | str, dtype: DType, session: Any) -> None:
        self.handle = handle.decode() if isinstance(handle, bytes) else handle
        self._dtype = dtype
        self._session = session
        self._is_owner = True

    def __del__(self) -> None:
        if getattr(self, "_is_owner", False):
            with contextlib.suppress(Exception):
                self._session._drop_tensor(self.handle)

    def __str__(self) -> str:
        return self.handle

    def get_raw_handle(self) -> str:
        """The name; from now on the session keeps the value until it is deleted."""
        self._is_owner = False
        return self.handle

    def eval(self) -> Any:
        """The value."""
        graph = self._session.graph
        readers = _readers.setdefault(graph, {})
        key = (self._dtype, self.handle.rpartition(";")[2])
        if key not in readers:
            with graph.as_default(), graph.control_dependencies(None):
                readers[key] = session_handles.get_session_tensor(self.handle, self._dtype)
        holder, reader = readers[key]
        return self._session.run(reader, {holder: self.handle})

    def to_numpy_array(self) -> Any:
        """The value as an array."""
        return self.eval()

    def delete(self) -> None:
        """Makes the session forget the value."""
        self._is_owner = False
        graph = self._session.graph
        with graph.as_default(), graph.control_dependencies(None):
            holder, deleter = session_handles.delete_session_tensor(self.handle)
        self._session.run(deleter, {holder: self.handle})
