"""`tf.make_template`: a function whose variables are made once and then shared."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from millrace.graph.defaults import get_default_graph
from millrace.graph.keys import GraphKeys
from millrace.ops.state import variable_scope
from millrace.ops.state.variable_scope import VariableScope

__all__ = ["make_template"]


def make_template(
    name_: str,
    func_: Callable[..., Any],
    create_scope_now_: bool = False,
    unique_name_: str | None = None,
    custom_getter_: Any = None,
    **kwargs: Any,
) -> Template:
    """Wraps `func_` so that its `tf.get_variable` calls share variables between calls.

    Args:
      name_: A name for the variable scope, made unique.
      func_: The function.
      create_scope_now_: Whether the scope is made now instead of at the first call.
      unique_name_: The exact name of the scope; then templates of one name share variables.
      custom_getter_: A custom getter for the scope.
      **kwargs: Arguments that are bound to `func_`.
    """
    if kwargs:
        func_ = functools.partial(func_, **kwargs)
    return Template(name_, func_, create_scope_now_, unique_name_, custom_getter_)


class Template:
    """A function with a variable scope of its own; see `make_template`."""

    def __init__(
        self,
        name: str,
        func: Callable[..., Any],
        create_scope_now: bool = False,
        unique_name: str | None = None,
        custom_getter: Any = None,
    ) -> None:
        if not name:
            raise ValueError("name cannot be None.")
        self._name = name
        self._func = func
        self._unique_name = unique_name
        self._custom_getter = custom_getter
        self._scope: VariableScope | None = None
        self._variables_created = False
        if create_scope_now:
            with self._new_scope() as scope:
                self._scope = scope

    def _new_scope(self) -> variable_scope.variable_scope:
        return variable_scope.variable_scope(
            self._unique_name, self._name, custom_getter=self._custom_getter
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function; the first call makes its variables, later ones find them."""
        if self._scope is None:
            with self._new_scope() as scope:
                self._scope = scope
                return self._call(args, kwargs)
        with variable_scope.variable_scope(self._scope, reuse=self._variables_created):
            return self._call(args, kwargs)

    def _call(self, args: Any, kwargs: Any) -> Any:
        graph = get_default_graph()
        before = len(graph.get_collection_ref(GraphKeys.GLOBAL_VARIABLES))
        trainable_before = len(graph.get_collection_ref(GraphKeys.TRAINABLE_VARIABLES))
        result = self._func(*args, **kwargs)
        if self._variables_created:
            made = graph.get_collection(GraphKeys.TRAINABLE_VARIABLES)[trainable_before:]
            if made:
                raise ValueError(
                    "Trainable variable created when calling a template after the first time, "
                    "perhaps you used tf.Variable when you meant tf.get_variable: "
                    f"{[v.name for v in made]}"
                )
        elif len(graph.get_collection_ref(GraphKeys.GLOBAL_VARIABLES)) > before:
            self._variables_created = True
        return result

    @property
    def name(self) -> str:
        """The name that was asked for."""
        return self._name

    @property
    def func(self) -> Callable[..., Any]:
        """The function."""
        return self._func

    @property
    def variable_scope(self) -> VariableScope | None:
        """The scope, once it is made."""
        return self._scope

    @property
    def var_scope(self) -> VariableScope | None:
        """The old name of `variable_scope`."""
        return self._scope

    @property
    def variable_scope_name(self) -> str | None:
        """The scope's name."""
        return None if self._scope is None else self._scope.name.rstrip("/")

    def _members(self, key: str) -> list[Any]:
        return [] if self._scope is None else self._scope.get_collection(key)

    @property
    def variables(self) -> list[Any]:
        """All variables of the template, global and local."""
        return self.global_variables + self.local_variables

    @property
    def weights(self) -> list[Any]:
        """All variables of the template."""
        return self.variables

    @property
    def trainable_variables(self) -> list[Any]:
        """The trainable variables of the template."""
        return self._members(GraphKeys.TRAINABLE_VARIABLES)

    @property
    def trainable_weights(self) -> list[Any]:
        """The trainable variables of the template."""
        return self.trainable_variables

    @property
    def non_trainable_variables(self) -> list[Any]:
        """The variables of the template that are not trained."""
        trained = set(self.trainable_variables)
        return [v for v in self.variables if v not in trained]

    @property
    def non_trainable_weights(self) -> list[Any]:
        """The variables of the template that are not trained."""
        return self.non_trainable_variables

    @property
    def global_variables(self) -> list[Any]:
        """The global variables of the template."""
        return self._members(GraphKeys.GLOBAL_VARIABLES)

    @property
    def local_variables(self) -> list[Any]:
        """The local variables of the template."""
        return self._members(GraphKeys.LOCAL_VARIABLES)
