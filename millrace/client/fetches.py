"""From what `Session.run` is asked for to tensors and operations, and back to its shape."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from millrace.client.tensor_handle import HANDLE_OPS, TensorHandle
from millrace.core import errors
from millrace.graph.graph import Graph
from millrace.graph.operation import Operation
from millrace.graph.slices import (
    IndexedSlices,
    IndexedSlicesValue,
    SparseTensor,
    SparseTensorValue,
)
from millrace.graph.tensor import Tensor

#: ``results`` by element -> the value in the place of a fetch.
Rebuild = Callable[[dict[Any, Any]], Any]

_expansions: list[tuple[type, Callable[..., Any], Callable[..., Any] | None]] = []


def register_session_run_conversion_functions(
    tensor_type: type,
    fetch_function: Callable[..., Any],
    feed_function: Callable[..., Any] | None = None,
    feed_function_for_partial_run: Callable[..., Any] | None = None,
) -> None:
    """Teaches `Session.run` to fetch (and feed) values of a new type.

    Args:
      tensor_type: The type.
      fetch_function: ``value -> (list of tensors, function from their results to one)``.
      feed_function: ``(key, value) -> list of (tensor, value)``.
      feed_function_for_partial_run: Unused; TensorFlow has it.
    """
    for known, _, _ in _expansions:
        if issubclass(tensor_type, known):
            raise ValueError(f"{tensor_type} has already been registered so ignore it.")
    _expansions.insert(0, (tensor_type, fetch_function, feed_function))


#: Changes fetched values before a program sees them; for programs of another time.
present: Callable[[Any], Any] | None = None


class FetchMapper:
    """The tensors and operations behind a structure of fetches.

    Attributes:
      tensors: Unique fetched tensors, in order of first appearance.
      targets: Unique fetched operations.
    """

    def __init__(self, graph: Graph, fetches: Any, session: Any = None) -> None:
        self._graph = graph
        self._session = session
        self.tensors: list[Tensor] = []
        self.targets: list[Operation] = []
        self._seen: set[Any] = set()
        self._rebuild = self._map(fetches)

    def rebuild(self, values: Sequence[Any]) -> Any:
        """The results in the structure of the fetches; `values` go with `tensors`."""
        if present is not None:
            values = [present(value) for value in values]
        return self._rebuild(dict(zip(self.tensors, values, strict=True)))

    def _map(self, fetch: Any) -> Rebuild:
        if fetch is None:
            raise TypeError("Fetch argument None has invalid type <class 'NoneType'>")
        if isinstance(fetch, Tensor | Operation | str | bytes):
            return self._element(fetch)
        if isinstance(fetch, list | tuple):
            return self._sequence(fetch)
        if isinstance(fetch, Mapping):
            return self._mapping(fetch)
        if dataclasses.is_dataclass(fetch) and not isinstance(fetch, type):
            return self._dataclass(fetch)
        if isinstance(fetch, SparseTensor):
            parts = [self._map(p) for p in (fetch.indices, fetch.values, fetch.dense_shape)]
            return lambda r: SparseTensorValue(*(p(r) for p in parts))
        if isinstance(fetch, IndexedSlices):
            values, indices = self._map(fetch.values), self._map(fetch.indices)
            if fetch.dense_shape is None:
                return lambda r: IndexedSlicesValue(values(r), indices(r), None)
            shape = self._map(fetch.dense_shape)
            return lambda r: IndexedSlicesValue(values(r), indices(r), shape(r))
        for kind, fetch_function, _ in _expansions:
            if isinstance(fetch, kind):
                tensors, contract = fetch_function(fetch)
                parts = [self._map(t) for t in tensors]
                return lambda r: contract([p(r) for p in parts])
        return self._element(fetch)

    def _element(self, fetch: Any) -> Rebuild:
        try:
            element = self._graph.as_graph_element(fetch, allow_tensor=True, allow_operation=True)
        except TypeError as error:
            raise TypeError(
                f"Fetch argument {fetch!r} has invalid type {type(fetch)}, must be a string or "
                f"Tensor. ({error})"
            ) from None
        except (ValueError, KeyError) as error:
            text = error.args[0] if error.args else error
            raise ValueError(
                f"Fetch argument {fetch!r} cannot be interpreted as a Tensor. ({text})"
            ) from None
        if not self._graph.is_fetchable(element):
            raise errors.InaccessibleTensorError(
                f"Operation {element.name} has been marked as not fetchable."
            )
        if element not in self._seen:
            self._seen.add(element)
            if isinstance(element, Tensor):
                self.tensors.append(element)
            else:
                self.targets.append(element)
        if not isinstance(element, Tensor):
            return lambda r: None
        if element.op.type in HANDLE_OPS:
            session, dtype = self._session, element.op.inputs[0].dtype.base_dtype
            return lambda r: TensorHandle(r[element], dtype, session)
        return lambda r: r[element]

    def _sequence(self, fetch: Any) -> Rebuild:
        parts = [self._map(item) for item in fetch]
        kind = type(fetch)
        if isinstance(fetch, list):
            return lambda r: [p(r) for p in parts]
        if hasattr(fetch, "_fields"):
            return lambda r: kind(*(p(r) for p in parts))
        return lambda r: kind(p(r) for p in parts)

    def _mapping(self, fetch: Mapping[Any, Any]) -> Rebuild:
        parts = {key: self._map(value) for key, value in fetch.items()}
        kind = type(fetch)

        def rebuild(results: dict[Any, Any]) -> Any:
            made: Any = kind() if kind is not dict else {}
            for key, part in parts.items():
                made[key] = part(results)
            return made

        return rebuild

    def _dataclass(self, fetch: Any) -> Rebuild:
        names = [field.name for field in dataclasses.fields(fetch)]
        parts = {name: self._map(getattr(fetch, name)) for name in names}
        kind = type(fetch)
        return lambda r: kind(**{name: part(r) for name, part in parts.items()})


def cache_key(fetches: Any) -> Any:
    """A hashable key that equal structures of the same elements share, or None."""
    if isinstance(fetches, Tensor | Operation):
        return fetches
    kind = type(fetches)
    if kind is list or kind is tuple or hasattr(fetches, "_fields"):
        parts = []
        for item in fetches:
            part = item if isinstance(item, Tensor | Operation) else cache_key(item)
            if part is None:
                return None
            parts.append(part)
        return (kind, *parts)
    if kind is dict:
        parts = []
        for key, item in fetches.items():
            part = cache_key(item)
            if part is None:
                return None
            parts.append((key, part))
        return (kind, *parts)
    if kind is str:
        return fetches
    return fetches if hasattr(fetches, "_as_graph_element") else None


def expand_feed(graph: Graph, key: Any, value: Any) -> list[tuple[Tensor, Any]]:
    """The (tensor, value) pairs that feeding `value` for `key` means.

    Raises:
      TypeError: The key cannot denote a tensor.
      ValueError: The tensor is of another graph, or may not be fed.
    """
    if isinstance(key, list | tuple):
        values = list(value)
        if len(values) != len(key):
            raise ValueError(
                f"Could not flatten dictionary. Key had {len(key)} elements, but value had "
                f"{len(values)} elements. Key: {key}, value: {value}."
            )
        return [
            pair
            for part, item in zip(key, values, strict=True)
            for pair in expand_feed(graph, part, item)
        ]
    if isinstance(key, SparseTensor):
        parts = (key.indices, key.values, key.dense_shape)
        return list(zip(parts, tuple(value), strict=True))
    if isinstance(key, IndexedSlices):
        pairs = [(key.values, value[0]), (key.indices, value[1])]
        if key.dense_shape is not None:
            pairs.append((key.dense_shape, value[2]))
        return pairs
    for kind, _, feed_function in _expansions:
        if isinstance(key, kind) and feed_function is not None:
            return list(feed_function(key, value))
    try:
        tensor = graph.as_graph_element(key, allow_tensor=True, allow_operation=False)
    except Exception as error:
        text = error.args[0] if error.args else error
        raise TypeError(f"Cannot interpret feed_dict key as Tensor: {text}") from None
    assert isinstance(tensor, Tensor)
    if not graph.is_feedable(tensor):
        raise ValueError(f"Tensor {tensor.name} may not be fed.")
    return [(tensor, value)]
