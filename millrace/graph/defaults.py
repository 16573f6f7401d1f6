"""The default graph and the functions that act on it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from millrace.graph import stacks
from millrace.graph.graph import Graph
from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor

_global_default: list[Graph] = []


def get_default_graph() -> Graph:
    """The graph that operations are added to: the innermost `as_default`, else a global one."""
    graph = stacks.graphs.get()
    if graph is not None:
        assert isinstance(graph, Graph)
        return graph
    if not _global_default:
        _global_default.append(Graph())
    return _global_default[0]


def reset_default_graph() -> None:
    """Replaces the global default graph by an empty one.

    Raises:
      AssertionError: Inside a ``with graph.as_default()`` block.
    """
    if stacks.graphs.items:
        raise AssertionError(
            "Do not use tf.reset_default_graph() to clear nested graphs. If you need a cleared "
            "graph, exit the nesting and create a new graph."
        )
    _global_default.clear()


def get_default_session() -> Any:
    """The innermost session made default by ``with session``, or None."""
    return stacks.sessions.get()


def graph_of(inputs: Any, graph: Graph | None = None) -> Graph:
    """The graph that all of `inputs` belong to, or the default graph.

    Raises:
      ValueError: They belong to different graphs.
    """
    default = stacks.graphs.get()
    found: Graph | None = graph
    first: Any = None
    for item in inputs:
        element = item if isinstance(item, Tensor | Operation) else getattr(item, "op", None)
        item_graph = getattr(item, "graph", None) or getattr(element, "graph", None)
        if not isinstance(item_graph, Graph):
            continue
        if graph is None and item_graph is not default and _surrounds(item_graph, default):
            # The body of a conditional or loop captures it.
            item_graph = default
        if found is None:
            found, first = item_graph, item
        elif found is not item_graph:
            if graph is not None:
                raise ValueError(f"{item} is not from the passed-in graph.")
            raise ValueError(f"{item} must be from the same graph as {first}.")
    return found if found is not None else get_default_graph()


def _surrounds(graph: Graph, inner: Any) -> bool:
    is_inside = getattr(inner, "is_inside", None)
    return is_inside is not None and bool(is_inside(graph))


@contextlib.contextmanager
def init_scope() -> Iterator[None]:
    """Lifts what is created inside out of conditionals, loops and control dependencies.

    Variables are made here: they belong to the outermost graph.
    """
    graph = get_default_graph()
    scope = graph.get_name_scope()
    while (outer := getattr(graph, "outer", None)) is not None:
        graph = outer
    prefix = graph.get_name_scope() if graph is get_default_graph() else scope
    with (
        graph.as_default(),
        graph.control_dependencies(None),
        graph._devices_outside_colocation(),
        graph.name_scope(prefix + "/" if prefix else None),
    ):
        yield


class name_scope:  # noqa: N801 - TensorFlow's name
    """A name scope on the graph of `values`, or on the default graph.

    `name` wins over `default_name`; with neither there must be a default, or no scope is
    opened for a None name with values.
    """

    def __init__(
        self, name: str | None, default_name: str | None = None, values: Any = None
    ) -> None:
        self._name = default_name if name is None else name
        self._default_name = default_name
        self._values = values
        self._stack = contextlib.ExitStack()

    @property
    def name(self) -> str | None:
        """The name wanted."""
        return self._name

    def __enter__(self) -> str:
        if self._name is None and self._values is not None:
            raise ValueError(
                f"At least one of name ({self._name}) and default_name ({self._default_name}) "
                "must be provided."
            )
        graph = graph_of(self._values or [])
        self._stack.enter_context(graph.as_default())
        return self._stack.enter_context(graph.name_scope(self._name))

    def __exit__(self, *exc: Any) -> None:
        self._stack.__exit__(*exc)


def control_dependencies(control_inputs: Any) -> Any:
    """`Graph.control_dependencies` on the default graph."""
    return get_default_graph().control_dependencies(control_inputs)


def device(device_name_or_function: Any) -> Any:
    """`Graph.device` on the default graph."""
    return get_default_graph().device(device_name_or_function)


def colocate_with(op: Any, ignore_existing: bool = False) -> Any:
    """`Graph.colocate_with` on the default graph."""
    return get_default_graph().colocate_with(op, ignore_existing)


def container(container_name: str) -> Any:
    """`Graph.container` on the default graph."""
    return get_default_graph().container(container_name)


def add_to_collection(name: Any, value: Any) -> None:
    """`Graph.add_to_collection` on the default graph."""
    get_default_graph().add_to_collection(name, value)


def add_to_collections(names: Any, value: Any) -> None:
    """`Graph.add_to_collections` on the default graph."""
    get_default_graph().add_to_collections(names, value)


def get_collection(key: Any, scope: str | None = None) -> list[Any]:
    """`Graph.get_collection` on the default graph."""
    return get_default_graph().get_collection(key, scope)


def get_collection_ref(key: Any) -> list[Any]:
    """`Graph.get_collection_ref` on the default graph."""
    return get_default_graph().get_collection_ref(key)


def get_all_collection_keys() -> list[Any]:
    """`Graph.get_all_collection_keys` on the default graph."""
    return get_default_graph().get_all_collection_keys()


@contextlib.contextmanager
def op_scope(values: Any, name: str | None, default_name: str | None = None) -> Iterator[str]:
    """The old argument order of `name_scope`."""
    with name_scope(name, default_name, values) as scope:
        yield scope
