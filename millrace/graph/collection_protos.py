"""How members of graph collections become messages, and names move between scopes.

A collection whose members are more than names or numbers (variables, queue runners, savers)
registers here how each becomes a message and is made again from it. `graph.meta_graph` is the
only reader.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple


class CollectionProto(NamedTuple):
    """A message class, and the ways to it and from it."""

    proto_type: Any
    to_proto: Callable[..., Any] | None
    from_proto: Callable[..., Any] | None


_NONE = CollectionProto(None, None, None)
_collections: dict[str, CollectionProto] = {}


def register_proto_function(
    collection_name: str,
    proto_type: Any = None,
    to_proto: Callable[..., Any] | None = None,
    from_proto: Callable[..., Any] | None = None,
) -> None:
    """Registers the message form of a collection's members.

    Args:
      collection_name: The collection.
      proto_type: The message class.
      to_proto: ``(member, export_scope=...) -> message``, or None for a member that is not
        exported.
      from_proto: ``(message, import_scope=...) -> member``.

    Raises:
      TypeError: A function is not callable.
      KeyError: The collection has one already.
    """
    for function in (to_proto, from_proto):
        if function is not None and not callable(function):
            raise TypeError("to_proto and from_proto must be callable.")
    if collection_name in _collections:
        raise KeyError(f"Collection {collection_name!r} has registered proto functions already")
    _collections[collection_name] = CollectionProto(proto_type, to_proto, from_proto)


def get_collection_proto_type(collection_name: str) -> Any:
    """The message class of a collection's members, or None."""
    return _collections.get(collection_name, _NONE).proto_type


def get_to_proto_function(collection_name: str) -> Callable[..., Any] | None:
    """What makes messages of a collection's members, or None."""
    return _collections.get(collection_name, _NONE).to_proto


def get_from_proto_function(collection_name: str) -> Callable[..., Any] | None:
    """What makes a collection's members from messages, or None."""
    return _collections.get(collection_name, _NONE).from_proto


def strip_name_scope(name: Any, export_scope: str | None) -> Any:
    """`name` without the scope in front; also of ``^name`` and ``loc:@name``.

    What is not a string comes back as it is.
    """
    if not export_scope or not isinstance(name, str | bytes):
        return name
    text = name.decode() if isinstance(name, bytes) else name
    scope = re.escape(export_scope.removesuffix("/"))
    return re.sub(rf"^(\^|loc:@|){scope}/", r"\1", text)


def prepend_name_scope(name: Any, import_scope: str | None) -> Any:
    """`name` with the scope in front; also of ``^name`` and ``loc:@name``.

    What is not a string comes back as it is.
    """
    if not import_scope or not isinstance(name, str | bytes):
        return name
    text = name.decode() if isinstance(name, bytes) else name
    scope = import_scope.removesuffix("/")
    mark = next((m for m in ("^", "loc:@") if text.startswith(m)), "")
    return f"{mark}{scope}/{text[len(mark) :]}"
