"""What kernels of queues, tables, readers and the like share: names, look-up, locks, waiting.

A resource is made when the op that names it first runs, and found again through the handle that
this op gives out. Resources without a shared name belong to their session: the name has a number
in front, as in TensorFlow.

No kernel waits: `Guarded.submit` returns a Future when the state machine cannot answer yet.
Results are handed over outside of the lock.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from millrace.core.dtypes import DType
from millrace.core.resource_handle import ResourceHandle, handle_array, handle_of, handle_strings
from millrace.protocol.attempt import Attempt

_serials = itertools.count()


class StateMachine(Protocol):
    """What `Guarded` drives; every event returns the attempts that it has settled."""

    def submit(self, attempt: Any) -> list[Attempt]:
        """A new request."""

    def cancel(self, attempt: Any) -> list[Attempt]:
        """The step that made the request was cancelled."""

    def abandon(self) -> list[Attempt]:
        """The whole goes away."""


_S = TypeVar("_S", bound=StateMachine)
_R = TypeVar("_R")


class _Waiter:
    """Whom to tell when an attempt is settled, and how to turn its value into outputs.

    Attributes:
      token: Of what cancels the attempt when its step is cancelled; None if that was before.
    """

    __slots__ = ("cancellation", "convert", "future", "token")

    def __init__(self, future: Any, convert: Callable[[Any], Any], cancellation: Any) -> None:
        self.future = future
        self.convert = convert
        self.cancellation = cancellation
        self.token: int | None = None

    def tell(self, attempt: Attempt) -> None:
        """Passes the outcome on."""
        self.cancellation.deregister(self.token)
        try:
            outputs = self.convert(attempt.result())
        except Exception as error:
            self.future.set_error(error)
        else:
            self.future.set_result(outputs)


def _unchanged(value: Any) -> Any:
    return value


class Guarded(Generic[_S]):
    """A state machine that steps of several threads share: one event at a time.

    Attributes:
      state: The state machine; touched only with the lock held.
      lock: The lock. A caller that drives the state machine itself must pass on
        what that settles (`tell_all`), without it.
      noting: Where this thread notes what its step does, if another task follows; None if none
        does.
    """

    def __init__(self, state: _S) -> None:
        self.state = state
        self.lock = threading.Lock()
        self.noting: Callable[[], list[Any] | None] | None = None

    def submit(
        self,
        attempt: Attempt,
        ctx: Any,
        waits_for: str | Callable[[], str],
        convert: Callable[[Any], Any] = _unchanged,
    ) -> Any:
        """Makes a request; its result, or a Future of it.

        Args:
          attempt: The request.
          ctx: The step; cancelling it cancels the request.
          waits_for: What the request waits for, in words.
          convert: From the attempt's value to the kernel's outputs.
        """
        if self.noting is not None:
            attempt.events = self.noting()
        with self.lock:
            settled = self.state.submit(attempt)
            if not attempt.done:
                future = ctx.future(waits_for)
                attempt.waiter = waiter = _Waiter(future, convert, ctx.cancellation)
                # With the lock held, so that nobody tells the waiter before it has its token.
                waiter.token = ctx.cancellation.register(functools.partial(self._cancel, attempt))
            else:
                waiter = None
        if settled:
            tell_all(settled)
        if waiter is None:
            return convert(attempt.result())
        if waiter.token is None:
            self._cancel(attempt)
        return future

    def _cancel(self, attempt: Attempt) -> None:
        with self.lock:
            settled = self.state.cancel(attempt)
        tell_all(settled)

    def tell(self, event: Callable[[_S], list[Attempt]]) -> None:
        """Lets something happen to the state machine, and passes on what it settles."""
        with self.lock:
            settled = event(self.state)
        tell_all(settled)

    def ask(self, question: Callable[[_S], _R]) -> _R:
        """Looks at (or changes) the state machine without settling anything."""
        with self.lock:
            return question(self.state)

    def close(self) -> None:
        """Its container was cleared: those that wait are told so."""
        self.tell(lambda state: state.abandon())


def tell_all(settled: list[Attempt]) -> None:
    """Passes on what an event has settled; not with a lock held."""
    for attempt in settled:
        if attempt.waiter is not None:
            attempt.waiter.tell(attempt)


# -- Names -------------------------------------------------------------------------------


def name_of(ctx: Any, node: Any, use_node_name: bool = False) -> ResourceHandle:
    """The name of the resource that a node makes.

    Args:
      ctx: The step.
      node: Has attributes ``container`` and ``shared_name``.
      use_node_name: Whether a resource without a shared name is shared under the node's name,
        rather than being its session's own.
    """
    container = node.attrs["container"].decode()
    shared = node.attrs["shared_name"].decode()
    if shared:
        return ResourceHandle(container, shared)
    if use_node_name:
        return ResourceHandle(container, node.name)
    private = ctx.session.state_of(node, lambda: f"_{next(_serials)}_{node.name}")
    handle = ResourceHandle(container, private)
    ctx.session.own_resources.add(handle)
    return handle


def give_out(handle: ResourceHandle, node: Any) -> Any:
    """The value of the handle output of a node: a resource, or an old reference to strings."""
    if node.output_types[0].base_dtype.name == "resource":
        return handle_array(handle)
    return handle_strings(handle)


def once(ctx: Any, node: Any, make_handle: Callable[[], Any]) -> Any:
    """The handle that a node gives out; made once in a session, until containers are cleared."""
    generation = ctx.resources.generation
    key = f"{node.name}:handle"  # a colon: no node has this name
    found = ctx.session.kernel_state.get(key)
    if found is None or found[0] != generation:
        found = ctx.session.kernel_state[key] = (generation, make_handle())
    return found[1]


def make(kind: type[_R], ctx: Any, handle: ResourceHandle, create: Callable[[], _R]) -> _R:
    """The resource of that name, made the first time."""
    found: _R = ctx.resources.get_or_create(kind, handle.container, handle.name, create)
    return found


def find(kind: type[_R], ctx: Any, handle: Any) -> _R:
    """The resource behind a handle input.

    Raises:
      NotFoundError: There is none.
    """
    found: _R = ctx.resources.get(kind, handle_of(handle))
    return found


# -- Values ------------------------------------------------------------------------------


def kept(array: Any) -> Any:
    """The array, copied if somebody else may change it: what is stored must not follow."""
    if array.flags.writeable or isinstance(array.base, np.ndarray):
        return array.copy()
    return array


_C_NAMES = {"float32": "float", "float64": "double", "float16": "half"}


def type_text(dtype: DType) -> str:
    """The type's name in the messages of TensorFlow's kernels."""
    name = dtype.base_dtype.name
    text = _C_NAMES.get(name, name)
    return f"{text}_ref" if dtype._is_ref_dtype else text


def shape_text(sizes: Any) -> str:
    """A shape in the messages of TensorFlow's kernels; None is an unknown size."""
    return f"[{','.join('?' if size is None else str(size) for size in sizes)}]"
