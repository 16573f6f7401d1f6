"""Coordinator: threads that stop together.

Any thread may ask for a stop, with or without an exception; all see it; the thread that joins gets
the first exception that was not a clean end of input.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from millrace.core import errors
from millrace.platform import logging
from millrace.training.sessions.waiting import Wait

#: How often a join looks whether a stop was asked for.
_POLL_SECONDS = 0.05


class Coordinator:
    """Coordinates the end of a set of threads."""

    def __init__(
        self, clean_stop_exception_types: Iterable[type[BaseException]] | None = None
    ) -> None:
        """Makes a coordinator.

        Args:
          clean_stop_exception_types: Exceptions that mean a stop, but no failure;
            OutOfRangeError by default.
        """
        if clean_stop_exception_types is None:
            clean_stop_exception_types = (errors.OutOfRangeError,)
        self._clean_stop_exception_types = tuple(clean_stop_exception_types)
        self._lock = threading.Lock()
        self._stop_event = threading.Event()
        #: What `join` raises.
        self._error: BaseException | None = None
        self._joined = False
        self._registered_threads: set[threading.Thread] = set()

    def request_stop(self, ex: Any = None) -> None:
        """Asks all threads to stop.

        Args:
          ex: An exception, or a tuple as of `sys.exc_info()`, that `join` shall raise. Only
            the first counts, and none that means a clean stop.

        Raises:
          BaseException: The exception itself, if the threads were joined already.
        """
        error: BaseException | None = ex[1] if isinstance(ex, tuple) else ex
        if isinstance(error, self._clean_stop_exception_types):
            error = None
        with self._lock:
            if self._joined and error is not None:
                # Nobody will ask any more.
                raise error
            if self._stop_event.is_set():
                return
            if error is not None:
                logging.info("Error reported to Coordinator: %s, %s", type(error), error)
                self._error = error
            self._stop_event.set()

    def clear_stop(self) -> None:
        """Forgets the stop: threads may run again."""
        with self._lock:
            self._joined = False
            self._error = None
            self._stop_event.clear()

    def should_stop(self) -> bool:
        """Whether a stop was asked for."""
        return self._stop_event.is_set()

    @contextlib.contextmanager
    def stop_on_exception(self) -> Iterator[None]:
        """A ``with`` block; an exception in it asks for a stop, and goes no further."""
        try:
            yield
        except BaseException:
            self.request_stop(sys.exc_info())

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Waits until a stop is asked for; False if that took longer than `timeout` seconds."""
        return self._stop_event.wait(timeout)

    def register_thread(self, thread: threading.Thread) -> None:
        """Makes a thread one of those that `join` waits for."""
        with self._lock:
            self._registered_threads.add(thread)

    def join(
        self,
        threads: Iterable[threading.Thread] | None = None,
        stop_grace_period_secs: float = 120,
        ignore_live_threads: bool = False,
    ) -> None:
        """Waits until all threads have ended.

        Args:
          threads: Threads to wait for, besides the registered ones.
          stop_grace_period_secs: How long they may take after a stop was asked for.
          ignore_live_threads: Whether it is no error if some do not end in that time.

        Raises:
          RuntimeError: Threads still run after the grace period; it names them.
          BaseException: What was given to `request_stop`.
        """
        with self._lock:
            waited_for = list(self._registered_threads.union(threads or ()))
        for thread in waited_for:
            while thread.is_alive() and not self._stop_event.is_set():
                thread.join(_POLL_SECONDS)
        wait = Wait(None)
        for thread in waited_for:
            while thread.is_alive() and (left := stop_grace_period_secs - wait.seconds) > 0:
                thread.join(min(left, 1.0))
                wait.speak(functools.partial(_describe_threads, waited_for, stop_grace_period_secs))
        stragglers = " ".join(thread.name for thread in waited_for if thread.is_alive())
        with self._lock:
            self._joined = True
            self._registered_threads = set()
            if self._error is not None:
                raise self._error
            if stragglers:
                message = f"Coordinator stopped with threads still running: {stragglers}"
                if not ignore_live_threads:
                    raise RuntimeError(message)
                logging.info("%s", message)

    @property
    def joined(self) -> bool:
        """Whether `join` has been called since the last `clear_stop`."""
        return self._joined

    def raise_requested_exception(self) -> None:
        """Raises what was given to `request_stop`, if anything."""
        with self._lock:
            if self._error is not None:
                raise self._error


def _describe_threads(threads: list[threading.Thread], grace: float) -> str:
    names = ", ".join(thread.name for thread in threads if thread.is_alive())
    return (
        f"for threads to end after a stop was asked for: {names}. They have {grace:g} s. Check "
        "that they look at should_stop(), and that no enqueue or dequeue of theirs blocks."
    )


class LooperThread(threading.Thread):
    """A thread that does something again and again until its coordinator stops.

    Subclasses override `run_loop`, or a function is given.
    """

    def __init__(
        self,
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., Any] | None = None,
        args: Iterable[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        """Makes the thread, and registers it with its coordinator.

        Args:
          coord: The coordinator.
          timer_interval_secs: The time from one call to the next; None for no pause.
          target: What to call.
          args: Its positional arguments.
          kwargs: Its keyword arguments.
        """
        if not isinstance(coord, Coordinator):
            raise ValueError(f"'coord' argument must be a Coordinator: {coord}")
        if target is None and (args or kwargs):
            raise ValueError("'args' and 'kwargs' argument require that you also pass 'target'")
        super().__init__()
        self.daemon = True
        self._coord = coord
        self._timer_interval_secs = timer_interval_secs
        self._function = target
        self._arguments = tuple(args or ())
        self._keywords = dict(kwargs or {})
        coord.register_thread(self)

    @staticmethod
    def loop(
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., Any],
        args: Iterable[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> LooperThread:
        """Makes a thread and starts it."""
        looper = LooperThread(coord, timer_interval_secs, target, args, kwargs)
        looper.start()
        return looper

    def run(self) -> None:
        """Runs until the coordinator stops."""
        with self._coord.stop_on_exception():
            self.start_loop()
            if self._timer_interval_secs is None:
                while not self._coord.should_stop():
                    self.run_loop()
            else:
                following = time.monotonic()
                while not self._coord.wait_for_stop(max(0.0, following - time.monotonic())):
                    following += self._timer_interval_secs
                    self.run_loop()
            self.stop_loop()

    def start_loop(self) -> None:
        """Called once, before the first `run_loop`."""

    def stop_loop(self) -> None:
        """Called once, after the last `run_loop`."""

    def run_loop(self) -> None:
        """Called again and again."""
        if self._function is not None:
            self._function(*self._arguments, **self._keywords)
