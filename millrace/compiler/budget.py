"""A compile has a budget of time and memory.

XLA's compiler takes seconds for nearly every program, and for ever for a few: some chains of
operations take it twice as long with each link. A client must not wait for that without a word,
and a server must not lose its cores and memory to it. So a compile runs in a thread of its own.
When it is over its budget its caller gets `ResourceExhaustedError`, which says which operations
the program is made of. Nobody can stop XLA's compiler: the thread goes on at the lowest priority,
and until it ends no other program of a stage is compiled (`CompilerBusyError`), for its client
could ask for the next. Stages run without a program meanwhile.

All that XLA compiles comes this way: what is given to `compile`, and what JAX compiles because
somebody calls a function (`private.compile_through`).

``MILLRACE_MAX_COMPILE_SECONDS`` and ``MILLRACE_MAX_COMPILE_BYTES`` state the budget.

No lock of variables or sessions is to be held around `compile`: steps of others go on meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import resource
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from millrace.compiler import private
from millrace.compiler.xla import jax
from millrace.core import errors
from millrace.platform import exit_wait, limits, logging

#: How often a compile that lasts is looked at.
_LOOK_SECONDS = 0.1
#: So many types of operations are named in an error.
_NAMED_TYPES = 6


class Budget(NamedTuple):
    """What one compile may take.

    Attributes:
      seconds: From its start to its end.
      memory: Bytes by which the process may grow meanwhile.
    """

    seconds: float
    memory: float


class Operation(Protocol):
    """What is told of a node of the graph."""

    name: str

    @property
    def type(self) -> str: ...


class Lowered(Protocol):
    """A program before it is compiled, as `jax.jit(...).lower(...)` gives it."""

    def compile(self) -> Any: ...


def from_environment() -> Budget:
    """The budget that the process's limits state.

    Raises:
      ValueError: A variable holds something else than a number.
    """
    return Budget(limits.COMPILE_SECONDS.value, limits.COMPILE_BYTES.value)


class CompilerBusyError(errors.ResourceExhaustedError):
    """A program was not compiled because an earlier compile is over its budget and goes on."""


class _Compile:
    """One compile, in a thread of its own."""

    def __init__(self, name: str, work: Callable[[], Any]) -> None:
        self.name = name
        self.start = time.monotonic()
        self.done = threading.Event()
        self.error: BaseException | None = None
        self.result: Any = None
        self._work: Callable[[], Any] | None = work
        self.thread = threading.Thread(target=self._run, name="millrace-compile", daemon=True)
        exit_wait.begin(self.done, lambda: f"XLA's compiler with {name}")
        self.thread.start()

    def _run(self) -> None:
        _here.is_compiling = True
        try:
            assert self._work is not None
            self.result = self._work()
        except BaseException as error:
            self.error = error
        finally:
            self._work = None
            with _lock:
                if self in _overdue:
                    _overdue.remove(self)
                    logging.warning("XLA's compiler has ended after all with %s.", self.name)
            self.done.set()
            exit_wait.end(self.done)

    def step_back(self) -> None:
        """Lets all other threads go first: this is the priority of one thread, on Linux."""
        with contextlib.suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, self.thread.native_id or 0, 19)


class _Here(threading.local):
    """What a thread is about to compile.

    Attributes:
      is_compiling: Whether it compiles, within a budget.
      name: What its program is called; empty for what nobody has named.
      nodes: What that is made of.
    """

    is_compiling = False
    name = ""
    nodes: Iterable[Operation] = ()


_here = _Here()
_lock = threading.Lock()
#: Compiles that are over their budget, and go on because nobody can stop them.
_overdue: list[_Compile] = []


def compile(
    lowered: Lowered, name: str, nodes: Iterable[Operation] = (), budget: Budget | None = None
) -> Any:
    """Compiles a program within a budget.

    Args:
      lowered: The program.
      name: What it is called in messages.
      nodes: What it is made of.
      budget: What the compile may take; by default what the environment says.

    Returns:
      What `lowered.compile()` returns.

    Raises:
      CompilerBusyError: An earlier compile that took more than its budget still runs.
      ResourceExhaustedError: It takes more than its budget.
    """
    _refuse_if_busy(name)
    return _within(budget or from_environment(), lowered.compile, name, nodes)


def jitted(function: Callable[..., Any], name: str, nodes: Iterable[Operation]) -> Any:
    """`jax.jit(function)`, whose compiles are told by a name and what they are made of."""
    program = jax.jit(function)

    def call(*arguments: Any) -> Any:
        before = _here.name, _here.nodes
        _here.name, _here.nodes = name, nodes
        try:
            return program(*arguments)
        finally:
            _here.name, _here.nodes = before

    return call


def _enter(work: Callable[[], Any], program: str) -> Any:
    """Compiles what JAX wants compiled, in any thread."""
    if _here.is_compiling:
        return work()
    if _here.name:
        _refuse_if_busy(_here.name)
    return _within(from_environment(), work, _here.name or program, _here.nodes)


private.compile_through(_enter)


def _refuse_if_busy(name: str) -> None:
    with _lock:
        if _overdue:
            other = _overdue[0]
            raise CompilerBusyError(
                None,
                None,
                f"{name} is not compiled: the compile of {other.name} is over its budget and has "
                f"been running for {time.monotonic() - other.start:.0f} s.",
            )


def _within(
    allowed: Budget, compile_it: Callable[[], Any], name: str, nodes: Iterable[Operation]
) -> Any:
    before = _resident_bytes()
    work = _Compile(name, compile_it)
    while not work.done.wait(_LOOK_SECONDS):
        seconds, grown = time.monotonic() - work.start, _resident_bytes() - before
        if seconds > allowed.seconds:
            reason = (
                f"{seconds:.0f} s, and may take {allowed.seconds:g} "
                f"({limits.COMPILE_SECONDS.variable})"
            )
        elif grown > allowed.memory:
            reason = (
                f"{grown / 1e6:.0f} MB, and may take {allowed.memory / 1e6:.0f} "
                f"({limits.COMPILE_BYTES.variable})"
            )
        else:
            continue
        with _lock:
            if work.done.is_set():
                break
            _overdue.append(work)
        work.step_back()
        raise errors.ResourceExhaustedError(
            None,
            None,
            f"Compiling {name} has taken {reason}. The program is made of {described(nodes)}. It "
            "cannot be stopped and goes on with the lowest priority. Try fewer or smaller "
            "operations in one step, a loop (tf.while_loop, tf.scan) instead of its unrolled "
            "form, or MILLRACE_COMPILE=never.",
        )
    if work.error is not None:
        raise work.error
    return work.result


def described(nodes: Iterable[Operation]) -> str:
    """The most frequent types of operations, and the name of the first of each."""
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}
    for node in nodes:
        counts[node.type] += 1
        first.setdefault(node.type, node.name)
    if not counts:
        return "operations that are not known"
    named = [f"{count} {kind} ({first[kind]})" for kind, count in counts.most_common(_NAMED_TYPES)]
    rest = counts.total() - sum(count for _, count in counts.most_common(_NAMED_TYPES))
    return ", ".join(named) + (f" and {rest} others" if rest else "")


def _resident_bytes() -> int:
    """What the process has in memory now."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, IndexError):  # not Linux: the most that it ever had
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")
