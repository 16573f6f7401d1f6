"""Threads of a pipeline: elements that are made ahead, and calls side by side.

The only place where a pipeline has threads. A thread ends with its iterator (`close`), with the
pipeline (`Context.close`), or at the end of its source; nobody waits for it longer than it takes to
make one element.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

from millrace.data.pipeline.dataset import (
    Context,
    Dataset,
    EndOfSequence,
    PullIterator,
    State,
    Transformation,
    restored_elements,
    saved_elements,
)
from millrace.data.pipeline.element import Element

#: How many elements are made ahead where the program leaves the number to us.
AUTOMATIC_BUFFER = 4
_END = object()


class Prefetch(Transformation):
    """The same elements, up to `size` of them made ahead in a thread of their own."""

    def __init__(self, source: Dataset, size: int) -> None:
        super().__init__(source)
        if size < -1:
            raise ValueError("buffer_size must be >= 0 or set buffer_size to be AUTOTUNE (-1).")
        self.size = AUTOMATIC_BUFFER if size == -1 else size

    def iterator(self, context: Context) -> PullIterator:
        """A new iterator."""
        if self.size == 0:
            return self.source.iterator(context)
        return PrefetchIterator(self.source.iterator(context), self.size, context)

    def cardinality(self) -> int:
        """The same."""
        return self.source.cardinality()

    @property
    def is_quick(self) -> bool:
        """Elements may have to be waited for."""
        return False


class PrefetchIterator(PullIterator):
    """Elements that a thread has made ahead.

    Errors take their place among the elements. The thread starts with the first pull.
    """

    def __init__(self, source: PullIterator, size: int, context: Context) -> None:
        super().__init__(context)
        self._source = source
        self._size = size
        self._changed = threading.Condition()
        #: Elements, errors, and `_END` last.
        self._buffer: deque[Any] = deque()
        self._thread: threading.Thread | None = None
        self._is_closed = False
        #: Whether the thread is pulling the source just now.
        self._is_pulling = False
        self._is_paused = False
        self._on_ready: Callable[[], None] | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the next pull answers at once."""
        return bool(self._buffer)

    def next(self) -> Element:
        with self._changed:
            self.start()
            while not self._buffer:
                self.context.check()
                self._changed.wait()
            found = self._buffer[0]
            if found is not _END:
                self._buffer.popleft()
                self._changed.notify_all()
        if found is _END:
            raise EndOfSequence
        if isinstance(found, _Failure):
            raise found.error
        return found

    def start(self) -> None:
        """Begins to make elements."""
        if self._thread is None:
            self.context.on_close(self._wake)
            self._thread = threading.Thread(
                target=self._run, name=f"prefetch {self.context.name}", daemon=True
            )
            self._thread.start()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _may_pull(self) -> bool:
        return not self._is_paused and len(self._buffer) < self._size

    def _is_ended(self) -> bool:
        return self._is_closed or self.context.closed.is_set()

    def _run(self) -> None:
        self.context.enter()
        while True:
            with self._changed:
                while not self._may_pull() and not self._is_ended():
                    self._changed.wait()
                if self._is_ended():
                    return
                room = self._size - len(self._buffer)
                self._is_pulling = True
            made: list[Any]
            try:
                # A few at a time where elements are small and many are wanted.
                made = self._source.take(min(room, 64) if self._size >= 16 else 1) or [_END]
            except Exception as error:
                made = [_Failure(error)]
            with self._changed:
                self._is_pulling = False
                self._buffer.extend(made)
                self._changed.notify_all()
                if made[0] is _END:
                    self.context.forget(self._wake)
                    return

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self.context.forget(self._wake)
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        self._source.close()

    def save(self) -> State:
        with self._changed:
            self._is_paused = True
            while self._is_pulling:
                self._changed.wait()
            kept = [e for e in self._buffer if e is not _END and not isinstance(e, _Failure)]
            state = {
                "buffer": saved_elements(kept),
                "is_over": bool(self._buffer) and self._buffer[-1] is _END,
                "source": self._source.save(),
            }
            self._is_paused = False
            self._changed.notify_all()
        return state

    def restore(self, state: State) -> None:
        with self._changed:
            self._is_paused = True
            while self._is_pulling:
                self._changed.wait()
            self._buffer = deque(restored_elements(state["buffer"]))
            if state["is_over"]:
                self._buffer.append(_END)
            self._source.restore(state["source"])
            self._is_paused = False
            self._changed.notify_all()


class _Failure:
    """An error in the place of an element."""

    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error


class _Pool:
    """Threads that call what they are given; unlike an executor's, none is waited for at exit."""

    def __init__(self, threads: int, context: Context) -> None:
        self._work: SimpleQueue[tuple[Future[Any], Callable[[Any], Any], Any] | None] = (
            SimpleQueue()
        )
        self._context = context
        self._count = threads
        self._started = 0

    def submit(self, call: Callable[[Any], Any], argument: Any) -> Future[Any]:
        """Calls `call(argument)` in one of the threads."""
        future: Future[Any] = Future()
        self._work.put((future, call, argument))
        if self._started < self._count:
            self._started += 1
            threading.Thread(
                target=self._run, name=f"map {self._context.name}", daemon=True
            ).start()
        return future

    def _run(self) -> None:
        self._context.enter()
        while (item := self._work.get()) is not None:
            future, call, argument = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call(argument))
            except Exception as error:
                future.set_exception(error)
            del item, future, argument

    def close(self) -> None:
        """Ends the threads, each after the call that it makes now."""
        for _ in range(self._started):
            self._work.put(None)


class Calls:
    """Calls of a function on elements, several at a time, whose results come in order.

    Args:
      call: From an element to its result; called by several threads.
      width: How many calls are under way or done and not fetched.
      threads: How many run at a time.
      ordered: Whether results come in the order of the elements, or as they are done.
      context: The pipeline.
    """

    def __init__(
        self,
        call: Callable[[Element], Any],
        width: int,
        threads: int,
        ordered: bool,
        context: Context,
    ) -> None:
        self._call = call
        self._width = width
        self._ordered = ordered
        self._context = context
        self._pool: _Pool | None = None
        self._threads = threads
        #: (element, future of its result), in the order of the elements.
        self._under_way: deque[tuple[Element, Future[Any]]] = deque()

    @property
    def room(self) -> int:
        """How many more calls may begin now."""
        return self._width - len(self._under_way)

    @property
    def count(self) -> int:
        """How many results are to come."""
        return len(self._under_way)

    def begin(self, element: Element) -> None:
        """Begins a call."""
        if self._pool is None:
            self._pool = _Pool(self._threads, self._context)
            self._context.on_close(self.close)
        self._under_way.append((element, self._pool.submit(self._call, element)))

    def result(self) -> Any:
        """The next result, or raises the call's error."""
        place = 0
        if not self._ordered:
            place = next((i for i, (_, f) in enumerate(self._under_way) if f.done()), 0)
        _, future = self._under_way[place]
        try:
            return future.result()
        finally:
            del self._under_way[place]

    def elements(self) -> list[Element]:
        """The elements whose results are to come."""
        return [element for element, _ in self._under_way]

    def forget(self) -> None:
        """Drops all calls; those that have begun end by themselves."""
        for _, future in self._under_way:
            future.cancel()
        self._under_way.clear()

    def close(self) -> None:
        """Ends the threads."""
        self._context.forget(self.close)
        self.forget()
        if self._pool is not None:
            self._pool.close()
            self._pool = None
