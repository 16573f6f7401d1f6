"""`Graph.switch_to_thread_local`: from then on each thread has scopes of its own.

Without it the scopes of a graph are shared by all threads that build it, as in TensorFlow.
"""

from __future__ import annotations

import threading
from typing import Any

#: The attributes of a graph that hold devices, colocation and control dependencies.
_SCOPES = ("_device_stack", "_outside_devices", "_control_stack", "_colocation_stack")


class _PerThread:
    """An attribute with a value per thread, which begins as it was at the switch."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, graph: Any, _: Any = None) -> Any:
        store = vars(graph)["_thread_scopes"]
        if not hasattr(store, self._name):
            first = vars(graph)["_first_scopes"][self._name]
            setattr(store, self._name, list(first) if isinstance(first, list) else first)
        return getattr(store, self._name)

    def __set__(self, graph: Any, value: Any) -> None:
        setattr(vars(graph)["_thread_scopes"], self._name, value)


def separate(graph: Any) -> None:
    """Gives each thread its own scopes of the graph; the second time nothing changes."""
    state = vars(graph)
    if "_thread_scopes" in state:
        return
    state["_first_scopes"] = {name: state.pop(name) for name in _SCOPES}
    state["_thread_scopes"] = threading.local()
    kind = type(graph)
    graph.__class__ = type(kind.__name__, (kind,), {n: _PerThread(n) for n in _SCOPES})
