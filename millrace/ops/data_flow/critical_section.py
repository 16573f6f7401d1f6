"""Critical sections: parts of a graph that run one at a time, in whichever step.

A section has a lock (TensorFlow's Mutex op types). What is executed in it waits for the lock,
and the lock is given back when it has ended, or when its step has failed.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from millrace.core import nest
from millrace.graph.defaults import (
    add_to_collections,
    control_dependencies,
    get_collection,
    get_default_graph,
    name_scope,
)
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import none, scalars
from millrace.graph.tensor import Tensor
from millrace.ops.array import identity as array_identity
from millrace.ops.data_flow import shared_state
from millrace.protocol.attempt import Attempt
from millrace.protocol.mutex import MutexState

__all__ = ["CriticalSection"]

#: Collections in which a graph keeps its sections, and what they execute.
SECTIONS = "critical_sections"
EXECUTIONS = "critical_section_executions"


class _SharedMutex(shared_state.Guarded[MutexState]):
    """The lock that several steps share."""


class _Held:
    """Stands for holding a lock in a step: gives it back once.

    That is when it is told to; when the step fails; at the latest when nobody keeps it.
    """

    def __init__(self, mutex: _SharedMutex, cancellation: Any) -> None:
        self._mutex: _SharedMutex | None = mutex
        self._cancellation = cancellation
        # Weakly: a step must not keep the lock only because it could still be cancelled.
        itself = weakref.ref(self)
        self._token = cancellation.register(lambda: _release(itself()))
        if self._token is None:
            self.release()

    def release(self) -> None:
        """Gives the lock back."""
        mutex, self._mutex = self._mutex, None
        if mutex is not None:
            if self._token is not None:
                self._cancellation.deregister(self._token)
            mutex.tell(lambda state: state.release())

    def __del__(self) -> None:
        self.release()


def _release(held: _Held | None) -> None:
    if held is not None:
        held.release()


@op(
    'MutexV2() -> resource: resource where container: string = ""; shared_name: string = ""',
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def MutexV2(*, ctx: Any, node: Any) -> Any:
    """Makes a lock."""

    def make_handle() -> Any:
        handle = shared_state.name_of(ctx, node)
        shared_state.make(_SharedMutex, ctx, handle, lambda: _SharedMutex(MutexState(handle.name)))
        return shared_state.give_out(handle, node)

    return shared_state.once(ctx, node, make_handle)


@op(
    "MutexLock(mutex: resource) -> mutex_lock: variant",
    shape=scalars,
    gradient=NO_GRADIENT,
    blocking=True,
    stateful=True,
)
def MutexLock(mutex: Any, *, ctx: Any) -> Any:
    """Takes a lock; the value stands for having it."""
    shared = shared_state.find(_SharedMutex, ctx, mutex)

    def held(_: Any) -> Any:
        value = np.empty((), object)
        value[()] = _Held(shared, ctx.cancellation)
        return value

    return shared.submit(Attempt(), ctx, f"the lock {shared.state.name}", held)


@op(
    "ConsumeMutexLock(mutex_lock: variant)",
    shape=none,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def ConsumeMutexLock(mutex_lock: Any) -> None:
    """Gives a lock back."""
    mutex_lock[()].release()


def _sources(operation: Operation) -> list[Operation]:
    return [tensor.op for tensor in operation.inputs] + list(operation.control_inputs)


class _ExecutionSignature:
    """What a section was asked to execute: needed to see that two do not share resources."""

    def __init__(self, op: Operation, handle: Tensor, resources: set[Any], exclusive: bool) -> None:
        self.op = op
        self.handle = handle
        self.resources = resources
        self.exclusive_resource_access = exclusive


class CriticalSection:
    """A part of the graph that never runs twice at the same time."""

    def __init__(
        self,
        name: str | None = None,
        shared_name: str | None = None,
        critical_section_def: Any = None,
        import_scope: str | None = None,
    ) -> None:
        if critical_section_def is not None:
            raise ValueError("Sections are not made from a CriticalSectionDef here.")
        with name_scope(name, "CriticalSection", []) as scope:
            own = shared_name
            if own is None:
                own = get_default_graph().unique_name(scope.rstrip("/"), mark_as_used=False)
            self._handle: Tensor = MutexV2(shared_name=own, container="", name=scope)
        add_to_collections(SECTIONS, self)

    @property
    def name(self) -> str:
        """The name of the lock's op."""
        return self._handle.op.name

    def execute(
        self,
        fn: Callable[..., Any],
        exclusive_resource_access: bool = True,
        name: str | None = None,
    ) -> Any:
        """Builds what `fn` builds, to run with the section's lock held.

        Args:
          fn: A function without arguments that builds ops.
          exclusive_resource_access: Whether no other section may use the same resources.
          name: Name of the scope.

        Returns:
          What `fn` returns, to be had once the lock has been given back.

        Raises:
          ValueError: `fn` takes the lock of this section, or uses resources of another one.
        """
        with name_scope(name, "critical_section_execute", []):
            graph = get_default_graph()
            lock = MutexLock(self._handle)
            first = len(graph.get_operations())
            with control_dependencies([lock]):
                results = fn()
            made = graph.get_operations()[first:]
            resources = self._resources_of(made)
            self._check(made, resources, exclusive_resource_access)
            # Not with the lock held: what is used inside may itself come out of the section.
            inside = {lock.op, *made}
            used = [op for m in made for op in _sources(m) if op not in inside]
            lock.op._add_control_inputs(list(dict.fromkeys(used)))
            flat = nest.flatten(results)
            tensors = [r for r in flat if isinstance(r, Tensor)]
            # All that was built must have run, not only what is returned.
            with control_dependencies([*made, *tensors]):
                done = ConsumeMutexLock(lock)
            with control_dependencies([done]):
                passed = [array_identity.identity(r) if isinstance(r, Tensor) else r for r in flat]
            add_to_collections(
                EXECUTIONS,
                _ExecutionSignature(lock.op, self._handle, resources, exclusive_resource_access),
            )
            if results is None:
                return done
            return nest.pack_sequence_as(results, passed)

    def _resources_of(self, made: list[Operation]) -> set[Any]:
        found: set[Any] = set()
        for operation in made:
            for tensor in operation.inputs:
                if tensor.dtype.name == "resource":
                    found.add(tensor)
        return found

    def _check(self, made: list[Operation], resources: set[Any], exclusive: bool) -> None:
        for operation in made:
            if operation.type == "MutexLock" and operation.inputs[0] is self._handle:
                raise ValueError(
                    f"Attempting to lock the section {self.name} in which it already runs. This "
                    "is illegal and would cause deadlocks."
                )
        for other in get_collection(EXECUTIONS):
            if other.handle is self._handle:
                continue
            if not (exclusive or other.exclusive_resource_access):
                continue
            shared = resources & other.resources
            if shared:
                raise ValueError(
                    "This section uses resources that another one has for itself: "
                    f"{', '.join(sorted(t.name for t in shared))} (in {other.op.name}). Pass "
                    "exclusive_resource_access=False to both if that is meant."
                )
