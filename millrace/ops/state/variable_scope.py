"""`tf.get_variable` and `tf.variable_scope`: named variables that parts of a program share.

A scope makes up names and gives defaults (initialiser, regulariser, partitioner, reuse, …) to
the `get_variable` calls inside. The current scope belongs to a graph and a thread; the
variables themselves to the graph (`variable_store`).
"""

from __future__ import annotations

import contextlib
import copy
import functools
import threading
from collections.abc import Iterator
from typing import Any

from millrace.core import dtypes
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import get_collection, get_default_graph, graph_of, name_scope
from millrace.graph.keys import GraphKeys
from millrace.ops.state.ref_variable import RefVariable
from millrace.ops.state.resource_variable import ResourceVariable
from millrace.ops.state.variable import (
    VariableAggregation,
    VariableSynchronization,
    set_default_creator,
)
from millrace.ops.state.variable_store import AUTO_REUSE, ReuseMode, VariableStore, trainable_by

__all__ = [
    "AUTO_REUSE",
    "VariableScope",
    "disable_resource_variables",
    "enable_resource_variables",
    "get_local_variable",
    "get_variable",
    "get_variable_scope",
    "no_regularizer",
    "resource_variables_enabled",
    "variable_op_scope",
    "variable_scope",
]


class _Flavour:
    """Which flavour a variable is that neither its call nor its scope chooses."""

    use_resource = False


def enable_resource_variables() -> None:
    """Makes resource variables the default."""
    _Flavour.use_resource = True


def disable_resource_variables() -> None:
    """Makes reference variables the default, as they are at the start."""
    _Flavour.use_resource = False


def resource_variables_enabled() -> bool:
    """Whether resource variables are the default."""
    return _Flavour.use_resource


def default_variable_creator(next_creator: Any = None, **kwargs: Any) -> Any:
    """Makes the variable: the end of every chain of variable creators."""
    use_resource = kwargs.pop("use_resource", None)
    if use_resource is None:
        use_resource = get_variable_scope().use_resource
    if use_resource is None:
        use_resource = _Flavour.use_resource
    if not use_resource:
        return RefVariable(**kwargs)
    kwargs.pop("expected_shape", None)
    return ResourceVariable(**kwargs)


set_default_creator(default_variable_creator)


class VariableScope:
    """Defaults for `get_variable`: a name prefix, reuse, initialiser and so on.

    Made by `variable_scope`; `get_variable_scope` gives the current one.
    """

    def __init__(
        self,
        reuse: Any,
        name: str = "",
        initializer: Any = None,
        regularizer: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        custom_getter: Any = None,
        name_scope: str = "",
        dtype: Any = dtypes.float32,
        use_resource: bool | None = None,
        constraint: Any = None,
    ) -> None:
        self._name = name
        self._initializer = initializer
        self._regularizer = regularizer
        self._reuse = reuse
        self._caching_device = caching_device
        self._partitioner = partitioner
        self._custom_getter = custom_getter
        self._name_scope = name_scope
        self._dtype = dtypes.as_dtype(dtype)
        self._use_resource = use_resource
        self._constraint = constraint

    @property
    def name(self) -> str:
        """The prefix of variable names."""
        return self._name

    @property
    def original_name_scope(self) -> str:
        """The name scope that was opened together with it."""
        return self._name_scope

    @property
    def reuse(self) -> Any:
        """Whether variables must exist (True), must not (False or None), or either."""
        return self._reuse

    @property
    def initializer(self) -> Any:
        """The default initialiser."""
        return self._initializer

    @property
    def dtype(self) -> dtypes.DType:
        """The default type."""
        return self._dtype

    @property
    def use_resource(self) -> bool | None:
        """The default flavour."""
        return self._use_resource

    @property
    def regularizer(self) -> Any:
        """The default regulariser."""
        return self._regularizer

    @property
    def caching_device(self) -> Any:
        """The default caching device."""
        return self._caching_device

    @property
    def partitioner(self) -> Any:
        """The default partitioner."""
        return self._partitioner

    @property
    def custom_getter(self) -> Any:
        """The default custom getter."""
        return self._custom_getter

    @property
    def constraint(self) -> Any:
        """The default constraint."""
        return self._constraint

    def reuse_variables(self) -> None:
        """From here on variables must exist."""
        self._reuse = True

    def set_initializer(self, initializer: Any) -> None:
        """Replaces the default initialiser."""
        self._initializer = initializer

    def set_dtype(self, dtype: Any) -> None:
        """Replaces the default type."""
        self._dtype = dtypes.as_dtype(dtype)

    def set_use_resource(self, use_resource: bool | None) -> None:
        """Replaces the default flavour."""
        self._use_resource = use_resource

    def set_regularizer(self, regularizer: Any) -> None:
        """Replaces the default regulariser."""
        self._regularizer = regularizer

    def set_caching_device(self, caching_device: Any) -> None:
        """Replaces the default caching device."""
        self._caching_device = caching_device

    def set_partitioner(self, partitioner: Any) -> None:
        """Replaces the default partitioner."""
        self._partitioner = partitioner

    def set_custom_getter(self, custom_getter: Any) -> None:
        """Replaces the default custom getter."""
        self._custom_getter = custom_getter

    def get_collection(self, name: str) -> list[Any]:
        """The members of a collection whose name is under this scope."""
        return get_collection(name, f"{self._name}/" if self._name else self._name)

    def trainable_variables(self) -> list[Any]:
        """The trainable variables of this scope."""
        return self.get_collection(GraphKeys.TRAINABLE_VARIABLES)

    def global_variables(self) -> list[Any]:
        """The global variables of this scope."""
        return self.get_collection(GraphKeys.GLOBAL_VARIABLES)

    def local_variables(self) -> list[Any]:
        """The local variables of this scope."""
        return self.get_collection(GraphKeys.LOCAL_VARIABLES)

    def get_variable(
        self,
        var_store: VariableStore,
        name: str | None,
        shape: Any = None,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        reuse: Any = None,
        trainable: bool | None = None,
        collections: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        validate_shape: bool = True,
        use_resource: bool | None = None,
        custom_getter: Any = None,
        constraint: Any = None,
        synchronization: VariableSynchronization = VariableSynchronization.AUTO,
        aggregation: VariableAggregation = VariableAggregation.NONE,
    ) -> Any:
        """Finds or makes a variable with this scope's defaults; see `tf.get_variable`."""

        def given(value: Any, default: Any) -> Any:
            return default if value is None else value

        # An empty name means the scope's own: the trailing slash asks for exactly that.
        full_name = f"{self._name}/{name}" if self._name and name is not None else name
        full_name = self._name if full_name is None else full_name
        if dtype is not None and initializer is not None and not callable(initializer):
            found = convert_to_tensor(initializer).dtype.base_dtype
            if found != dtypes.as_dtype(dtype).base_dtype:
                raise ValueError(
                    f"Initializer type '{found}' and explicit dtype "
                    f"'{dtypes.as_dtype(dtype)}' don't match."
                )
        # Names of variables come from variable scopes alone.
        with name_scope(None):
            return var_store.get_variable(
                full_name,
                shape=shape,
                dtype=given(dtype, self._dtype),
                initializer=given(initializer, self._initializer),
                regularizer=given(regularizer, self._regularizer),
                reuse=given(reuse, self._reuse),
                trainable=trainable_by(synchronization, trainable),
                collections=collections,
                caching_device=given(caching_device, self._caching_device),
                partitioner=given(partitioner, self._partitioner),
                validate_shape=validate_shape,
                use_resource=given(use_resource, self._use_resource),
                custom_getter=given(custom_getter, self._custom_getter),
                constraint=given(constraint, self._constraint),
                synchronization=synchronization,
                aggregation=aggregation,
            )


class _ScopeStore(threading.local):
    """A graph's current scope, and how often scopes of each name were opened inside it."""

    def __init__(self) -> None:
        self.current_scope = VariableScope(False)
        self.counts: dict[str, int] = {}

    def open_scope(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1

    def close_subscopes(self, name: str) -> None:
        for key in self.counts:
            if not name or key.startswith(name + "/"):
                self.counts[key] = 0


def _member(key: Any, kind: type[Any]) -> Any:
    members = get_default_graph().get_collection_ref(key)
    if not members:
        members.append(kind())
    return members[0]


def _scope_store() -> _ScopeStore:
    result: _ScopeStore = _member(GraphKeys._VARIABLE_SCOPE_STORE, _ScopeStore)
    return result


def _variable_store() -> VariableStore:
    result: VariableStore = _member(GraphKeys._VARIABLE_STORE, VariableStore)
    return result


def get_variable_scope() -> VariableScope:
    """The current variable scope."""
    return _scope_store().current_scope


def get_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool | None = None,
    collections: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    validate_shape: bool = True,
    use_resource: bool | None = None,
    custom_getter: Any = None,
    constraint: Any = None,
    synchronization: VariableSynchronization = VariableSynchronization.AUTO,
    aggregation: VariableAggregation = VariableAggregation.NONE,
) -> Any:
    """Finds or makes the variable of this name in the current variable scope.

    Args:
      name: Its name in the scope.
      shape: Its shape.
      dtype: Its type; the scope's when None.
      initializer: A function of shape and dtype, a tensor or value, or None for the scope's
        (and then Glorot's uniform one, or zeros for integers).
      regularizer: A function of the variable whose result joins REGULARIZATION_LOSSES.
      trainable: Whether optimizers train it.
      collections: Collections that it joins; GLOBAL_VARIABLES when None.
      caching_device: Where reads are cached.
      partitioner: A function of shape and dtype that says how to cut it.
      validate_shape: False allows an initial value of unknown shape.
      use_resource: Which flavour.
      custom_getter: Called as ``custom_getter(getter, name, **arguments)`` instead.
      constraint: Applied to the value after every update by an optimizer.
      synchronization, aggregation: Kept, for distribution strategies.

    Returns:
      The variable, or a PartitionedVariable.

    Raises:
      ValueError: It exists and the scope does not reuse, it does not exist and the scope
        only reuses, or its shape or type is another one.
    """
    return get_variable_scope().get_variable(
        _variable_store(),
        name,
        shape=shape,
        dtype=dtype,
        initializer=initializer,
        regularizer=regularizer,
        trainable=trainable,
        collections=collections,
        caching_device=caching_device,
        partitioner=partitioner,
        validate_shape=validate_shape,
        use_resource=use_resource,
        custom_getter=custom_getter,
        constraint=constraint,
        synchronization=synchronization,
        aggregation=aggregation,
    )


def get_local_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = False,
    collections: Any = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """As `get_variable`, for a variable in LOCAL_VARIABLES that is not trained."""
    names = [*(collections or ()), GraphKeys.LOCAL_VARIABLES]
    return get_variable(name, shape, dtype, initializer, regularizer, False, names, *args, **kwargs)


def _get_partitioned_variable(name: str | None, shape: Any, partitioner: Any, **kwargs: Any) -> Any:
    """As `get_variable`, but always in parts."""
    scope = get_variable_scope()
    if name is None and not scope.name:
        raise ValueError("A partitioned variable needs a name")
    return scope.get_variable(
        _variable_store(), name, shape=shape, partitioner=partitioner, **kwargs
    )


def no_regularizer(_: Any) -> None:
    """A regulariser that adds nothing; keeps a scope's regulariser from being inherited."""
    return None


def _wrapped_getter(custom_getter: Any, outer: Any) -> Any:
    """The getter of an inner scope, with that of the outer one behind it."""
    if outer is None:
        return custom_getter

    def wrapped(getter: Any, *args: Any, **kwargs: Any) -> Any:
        return custom_getter(functools.partial(outer, getter), *args, **kwargs)

    return wrapped


@contextlib.contextmanager
def _pure_variable_scope(
    name_or_scope: str | VariableScope,
    reuse: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    custom_getter: Any = None,
    old_name_scope: str | None = None,
    dtype: Any = None,
    use_resource: bool | None = None,
    constraint: Any = None,
) -> Iterator[VariableScope]:
    """A variable scope that opens no name scope."""
    store = _scope_store()
    outer = store.current_scope
    entered_again = isinstance(name_or_scope, VariableScope)
    if isinstance(name_or_scope, VariableScope):
        base, new_name = name_or_scope, name_or_scope.name
        inherited_reuse = reuse or base.reuse
        original = base.original_name_scope
    else:
        base = outer
        new_name = f"{outer.name}/{name_or_scope}" if outer.name else name_or_scope
        # Inner scopes reuse when outer ones do.
        inherited_reuse = reuse or outer.reuse
        original = name_or_scope if old_name_scope is None else old_name_scope
    scope = VariableScope(
        inherited_reuse,
        name=new_name,
        initializer=base.initializer if initializer is None else initializer,
        regularizer=base.regularizer if regularizer is None else regularizer,
        caching_device=base.caching_device if caching_device is None else caching_device,
        partitioner=base.partitioner if partitioner is None else partitioner,
        custom_getter=(
            base.custom_getter
            if custom_getter is None
            else _wrapped_getter(custom_getter, base.custom_getter)
        ),
        name_scope=original,
        dtype=base.dtype if dtype is None else dtype,
        use_resource=base.use_resource if use_resource is None else use_resource,
        constraint=base.constraint if constraint is None else constraint,
    )
    store.open_scope(new_name)
    counts = copy.copy(store.counts)
    store.current_scope = scope
    try:
        yield scope
    finally:
        store.close_subscopes(new_name)
        if entered_again:
            store.counts = counts
        store.current_scope = outer


def _unique_scope_name(prefix: str) -> str:
    """`prefix`, with a number if the current scope has had a scope of that name."""
    store = _scope_store()
    outer = store.current_scope.name
    base = f"{outer}/{prefix}" if outer else prefix
    if not store.counts.get(base):
        return prefix
    i = 1
    while store.counts.get(f"{base}_{i}"):
        i += 1
    return f"{prefix}_{i}"


class variable_scope:  # noqa: N801 - TensorFlow's name
    """Opens a variable scope and a name scope; ``with variable_scope("layer1") as scope``.

    Args:
      name_or_scope: A name for a scope inside the current one, or a scope to enter again.
      default_name: A name that is made unique, used when `name_or_scope` is None.
      values: Tensors whose graph is used.
      initializer, regularizer, caching_device, partitioner, custom_getter, dtype,
        use_resource, constraint: Defaults for `get_variable` inside.
      reuse: True, AUTO_REUSE, or None to inherit (False means the same).
      auxiliary_name_scope: False opens no name scope.
    """

    def __init__(
        self,
        name_or_scope: Any,
        default_name: str | None = None,
        values: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        custom_getter: Any = None,
        reuse: Any = None,
        dtype: Any = None,
        use_resource: bool | None = None,
        constraint: Any = None,
        auxiliary_name_scope: bool = True,
    ) -> None:
        if default_name is None and name_or_scope is None:
            raise TypeError("If default_name is None then name_or_scope is required")
        if not (name_or_scope is None or isinstance(name_or_scope, str | VariableScope)):
            raise TypeError("VariableScope: name_or_scope must be a string or VariableScope.")
        if not (reuse is None or isinstance(reuse, bool | ReuseMode)):
            raise TypeError("The reuse parameter must be True or False or None.")
        if name_or_scope is None and reuse:
            raise ValueError("reuse=True cannot be used without a name_or_scope")
        if not isinstance(auxiliary_name_scope, bool):
            raise TypeError(
                "The auxiliary_name_scope must be `True` or `False`, while get "
                f"{auxiliary_name_scope}"
            )
        self._name_or_scope = name_or_scope
        self._default_name = default_name
        self._values = values
        self._auxiliary_name_scope = auxiliary_name_scope
        self._options = {
            "initializer": initializer,
            "regularizer": regularizer,
            "caching_device": caching_device,
            "partitioner": partitioner,
            "custom_getter": custom_getter,
            "reuse": reuse or None,
            "dtype": dtype,
            "use_resource": use_resource,
            "constraint": constraint,
        }
        self._stacks: list[contextlib.ExitStack] = []

    def __enter__(self) -> VariableScope:
        stack = contextlib.ExitStack()
        try:
            scope = self._open(stack)
        except BaseException:
            stack.close()
            raise
        self._stacks.append(stack)
        return scope

    def __exit__(self, *exc: Any) -> None:
        self._stacks.pop().__exit__(*exc)

    def _open(self, stack: contextlib.ExitStack) -> VariableScope:
        graph = graph_of(self._values or [])
        stack.enter_context(graph.as_default())
        wanted = self._name_or_scope
        if isinstance(wanted, VariableScope):
            short_name = wanted.name.rsplit("/", 1)[-1]
        else:
            short_name = str(self._default_name) if wanted is None else wanted
        current = graph.get_name_scope()
        opened = f"{current}/" if current else ""
        if self._auxiliary_name_scope and short_name:
            opened = stack.enter_context(graph.name_scope(short_name))
        if wanted is None:
            wanted = _unique_scope_name(str(self._default_name))
        return stack.enter_context(
            _pure_variable_scope(wanted, old_name_scope=opened, **self._options)
        )


@contextlib.contextmanager
def variable_op_scope(
    values: Any,
    name_or_scope: Any,
    default_name: str | None = None,
    initializer: Any = None,
    regularizer: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    custom_getter: Any = None,
    reuse: Any = None,
    dtype: Any = None,
    use_resource: bool | None = None,
    constraint: Any = None,
) -> Iterator[VariableScope]:
    """The old argument order of `variable_scope`."""
    with variable_scope(
        name_or_scope,
        default_name=default_name,
        values=values,
        initializer=initializer,
        regularizer=regularizer,
        caching_device=caching_device,
        partitioner=partitioner,
        custom_getter=custom_getter,
        reuse=reuse,
        dtype=dtype,
        use_resource=use_resource,
        constraint=constraint,
    ) as scope:
        yield scope
