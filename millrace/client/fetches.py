"""From what `Session.run` is asked for to tensors and operations, and back to its shape."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterable, Mapping
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
from millrace.ops.ragged.ragged_tensor import RaggedTensor, RaggedTensorValue

#: The results, in the order of `FetchMapper.tensors` and then None -> the value of a fetch.
Rebuild = Callable[[list[Any]], Any]

#: Where a fetched operation finds its value: at the end of the results, where None is.
_NOTHING = -1

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
        self._places: dict[Any, int] = {}
        self._rebuild = _rebuild(self._map(fetches))

    def rebuild(self, values: list[Any]) -> Any:
        """The results in the structure of the fetches.

        Args:
          values: Those of `tensors`; the list is the mapper's from now on.
        """
        if present is not None:
            values = [present(value) for value in values]
        values.append(None)
        return self._rebuild(values)

    def _map(self, fetch: Any) -> Rebuild | int:
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
            pick = self._pick((fetch.indices, fetch.values, fetch.dense_shape))
            return lambda r: SparseTensorValue(*pick(r))
        if isinstance(fetch, IndexedSlices):
            if fetch.dense_shape is None:
                pick = self._pick((fetch.values, fetch.indices))
                return lambda r: IndexedSlicesValue._make((*pick(r), None))
            pick = self._pick((fetch.values, fetch.indices, fetch.dense_shape))
            return lambda r: IndexedSlicesValue(*pick(r))
        if isinstance(fetch, RaggedTensor):
            pick = self._pick((fetch.values, fetch.row_splits))
            return lambda r: RaggedTensorValue(*pick(r))
        for kind, fetch_function, _ in _expansions:
            if isinstance(fetch, kind):
                tensors, contract = fetch_function(fetch)
                pick = self._pick(tensors)
                return lambda r: contract(list(pick(r)))
        return self._element(fetch)

    def _element(self, fetch: Any) -> Rebuild | int:
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
        place = self._places.get(element)
        if place is None:
            if isinstance(element, Tensor):
                place = len(self.tensors)
                self.tensors.append(element)
            else:
                place = _NOTHING
                self.targets.append(element)
            self._places[element] = place
        if isinstance(element, Tensor) and element.op.type in HANDLE_OPS:
            session, dtype = self._session, element.op.inputs[0].dtype.base_dtype
            return lambda r: TensorHandle(r[place], dtype, session)
        return place

    def _pick(self, fetches: Iterable[Any]) -> Callable[[list[Any]], Iterable[Any]]:
        """What gives the values of several fetches, in their order."""
        parts = [self._map(fetch) for fetch in fetches]
        places = [part for part in parts if isinstance(part, int)]
        if len(places) == len(parts) > 1:
            return operator.itemgetter(*places)
        calls = [_rebuild(part) for part in parts]
        return lambda r: [call(r) for call in calls]

    def _sequence(self, fetch: Any) -> Rebuild:
        pick = self._pick(fetch)
        kind = type(fetch)
        if isinstance(fetch, list):
            return lambda r: list(pick(r))
        if hasattr(fetch, "_fields"):
            return lambda r: kind(*pick(r))
        return lambda r: kind(pick(r))

    def _mapping(self, fetch: Mapping[Any, Any]) -> Rebuild:
        keys, pick = list(fetch), self._pick(fetch.values())
        kind = type(fetch)
        if kind is dict:
            return lambda r: dict(zip(keys, pick(r), strict=True))

        def rebuild(results: list[Any]) -> Any:
            made: Any = kind()
            for key, value in zip(keys, pick(results), strict=True):
                made[key] = value
            return made

        return rebuild

    def _dataclass(self, fetch: Any) -> Rebuild:
        names = [field.name for field in dataclasses.fields(fetch)]
        pick = self._pick([getattr(fetch, name) for name in names])
        kind = type(fetch)
        return lambda r: kind(**dict(zip(names, pick(r), strict=True)))


def _rebuild(part: Rebuild | int) -> Rebuild:
    return operator.itemgetter(part) if isinstance(part, int) else part


#: What is an element as it stands; one tuple, since making a union takes longer than to look.
_ELEMENTS = (Tensor, Operation, str)


def cache_key(fetches: Any) -> Any:
    """A hashable key that equal structures of the same elements share, or None.

    Of an element it is the element, of a plain list or tuple of elements ``(type, *elements)``.
    """
    if isinstance(fetches, _ELEMENTS):
        return fetches
    kind = type(fetches)
    if kind is list or kind is tuple or hasattr(fetches, "_fields"):
        parts: list[Any] = [kind]
        items = fetches
    elif kind is dict:
        parts = [kind, *fetches]
        items = fetches.values()
    else:
        return fetches if hasattr(fetches, "_as_graph_element") else None
    for item in items:
        part = item if isinstance(item, _ELEMENTS) else cache_key(item)
        if part is None:
            return None
        parts.append(part)
    return tuple(parts)


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
    if isinstance(key, RaggedTensor):
        inner = expand_feed(graph, key.values, value.values)
        return [*inner, (key.row_splits, value.row_splits)]
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
