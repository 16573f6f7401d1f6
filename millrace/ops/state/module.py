"""`tf.Module`: an object that holds variables and other modules, and names what it builds."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

from millrace.core import nest
from millrace.graph.defaults import get_default_graph, name_scope
from millrace.graph.tensor import Tensor
from millrace.ops.state.variable import Variable

__all__ = ["Module"]


class Module:
    """Base class of things with variables: what is assigned to attributes is found."""

    #: Attributes that are not looked into; libraries add theirs.
    _TF_MODULE_IGNORED_PROPERTIES: frozenset[str] = frozenset()

    def __init__(self, name: str | None = None) -> None:
        """Takes a name that a scope may have.

        Raises:
          ValueError: The name is no Python identifier.
        """
        if name is None:
            spaced = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", type(self).__name__)
            name = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", spaced).lower()
        elif not name.isidentifier():
            raise ValueError(
                f"{name!r} is not a valid module name. Module names must be valid Python "
                "identifiers (e.g. a valid class name)."
            )
        self._name = name
        self._scope_name = get_default_graph().unique_name(name, mark_as_used=True) + "/"

    def _no_dependency(self, value: Any) -> Any:
        """The value itself: assigned so, TensorFlow's checkpoints of objects leave it out."""
        return value

    @property
    def name(self) -> str:
        """The name it was given."""
        return self._name

    @property
    def name_scope(self) -> Any:
        """A context in which its operations are built."""
        return name_scope(self._scope_name)

    @property
    def variables(self) -> tuple[Any, ...]:
        """Its variables and those of modules in it, by the names of attributes."""
        return tuple(self._flatten(lambda value: isinstance(value, Variable)))

    @property
    def trainable_variables(self) -> tuple[Any, ...]:
        """Those of `variables` that are trained."""
        return tuple(each for each in self.variables if each.trainable)

    @property
    def submodules(self) -> tuple[Any, ...]:
        """The modules in it, and in these."""
        return tuple(self._flatten(lambda value: isinstance(value, Module)))

    def _flatten(
        self, predicate: Callable[[Any], bool], seen: set[int] | None = None
    ) -> Iterator[Any]:
        seen = {id(self)} if seen is None else seen
        modules = []
        for key in sorted(set(vars(self)) - self._TF_MODULE_IGNORED_PROPERTIES):
            for leaf in _leaves(vars(self)[key]):
                if id(leaf) in seen:
                    continue
                if predicate(leaf):
                    seen.add(id(leaf))
                    yield leaf
                if isinstance(leaf, Module):
                    seen.add(id(leaf))
                    modules.append(leaf)
        for module in modules:
            yield from module._flatten(predicate, seen)

    @classmethod
    def with_name_scope(cls, method: Callable[..., Any]) -> Callable[..., Any]:
        """Decorator: a method's operations are built in the module's scope."""

        @functools.wraps(method)
        def scoped(self: Module, *args: Any, **kwargs: Any) -> Any:
            with self.name_scope:
                return method(self, *args, **kwargs)

        return scoped


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, Tensor | str | bytes):
        return []
    try:
        return nest.flatten(value)
    except TypeError:  # A dict whose keys have no order.
        return list(value.values())
