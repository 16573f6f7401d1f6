"""The name of a resource (a queue, a table, a reader), as it travels along the edges of a graph.

Must not: know what is behind the name. A task's resource store does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

DEFAULT_CONTAINER = "localhost"


class ResourceHandle:
    """Names a resource; the value that travels along resource edges."""

    __slots__ = ("container", "name")

    def __init__(self, container: str, name: str) -> None:
        self.container = container or DEFAULT_CONTAINER
        self.name = name

    def __repr__(self) -> str:
        return f"<resource {self.container}/{self.name}>"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ResourceHandle)
            and other.container == self.container
            and other.name == self.name
        )

    def __hash__(self) -> int:
        return hash((self.container, self.name))


def handle_array(handle: ResourceHandle) -> np.ndarray[Any, Any]:
    """A scalar array that holds the handle: the host form of a resource tensor."""
    array = np.empty((), dtype=object)
    array[()] = handle
    return array


def handle_strings(handle: ResourceHandle) -> np.ndarray[Any, Any]:
    """Container and name as two strings: the host form of an old reference to a resource."""
    return np.array([handle.container.encode(), handle.name.encode()], dtype=object)


def handle_of(array: np.ndarray[Any, Any]) -> ResourceHandle:
    """The handle in either host form.

    Raises:
        ValueError: The array is neither.
    """
    if array.shape == () and isinstance(array[()], ResourceHandle):
        handle: ResourceHandle = array[()]
        return handle
    if array.shape == (2,) and all(isinstance(part, bytes) for part in array):
        return ResourceHandle(array[0].decode(), array[1].decode())
    raise ValueError(f"Expected a handle of a resource, found an array of shape {array.shape}")
