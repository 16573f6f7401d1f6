"""Iterators as resources of a task: pipelines that steps take elements from.

A step never waits inside a kernel. An element that is there, or is made in microseconds, is taken
at once; else a thread of the iterator makes it, and the step gets a Future. Requests are answered
in their order. What was made for a step that is cancelled meanwhile is kept for the next.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from millrace.core import errors
from millrace.core.dtypes import DType
from millrace.core.tensor_shape import TensorShape
from millrace.data.pipeline import state_tensors
from millrace.data.pipeline.dataset import Context, Dataset, EndOfSequence, PullIterator
from millrace.data.pipeline.element import arrays
from millrace.data.pipeline.workers import PrefetchIterator
from millrace.ops.data_flow.shared_state import shape_text, type_text
from millrace.platform import file_access


def new_context(ctx: Any, name: str) -> Context:
    """The context of a pipeline of a step's session."""
    access = ctx.session.file_access

    def enter() -> None:
        file_access.confine(access)

    return Context(name, enter)


@contextlib.contextmanager
def pipeline_context(ctx: Any, name: str) -> Iterator[Context]:
    """A context for as long as a kernel runs; cancelling the step ends the pipeline."""
    context = new_context(ctx, name)
    token = ctx.cancellation.register(context.close)
    try:
        yield context
    finally:
        ctx.cancellation.deregister(token)
        context.close()


#: From an element's components (None at the end) to a kernel's outputs.
Convert = Callable[[list[Any] | None], Any]


def or_out_of_range(components: list[Any] | None) -> list[Any]:
    """The components, or OutOfRangeError at the end."""
    if components is None:
        raise errors.OutOfRangeError(None, None, "End of sequence")
    return components


class _Request:
    """A step that waits for an element."""

    __slots__ = ("cancellation", "convert", "future", "token")

    def __init__(self, future: Any, cancellation: Any, convert: Convert) -> None:
        self.future = future
        self.cancellation = cancellation
        self.convert = convert
        self.token: int | None = None

    def cancel(self) -> None:
        """The step does not want it any more."""
        self.future.set_error(
            self.cancellation.error or errors.CancelledError(None, None, "Step was cancelled.")
        )


class IteratorResource:
    """An iterator that steps share.

    Attributes:
      types: The types of an element's components; empty where any will do.
      shapes: Their static shapes.
    """

    def __init__(self, name: str, types: Sequence[DType], shapes: Sequence[TensorShape]) -> None:
        self.name = name
        self.types, self.shapes = list(types), list(shapes)
        self._changed = threading.Condition()
        self._source: PullIterator | None = None
        self._dataset: Dataset | None = None
        self._context: Context | None = None
        #: Held by the one who pulls.
        self._pulling = threading.Lock()
        #: Elements that were made for steps that are gone.
        self._returned: deque[Any] = deque()
        self._requests: deque[_Request] = deque()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def begin(self, dataset: Dataset, ctx: Any) -> None:
        """Starts over with a dataset.

        Raises:
          ValueError: Its elements have other types or shapes.
        """
        check_same(self.types, self.shapes, dataset.types, dataset.shapes)
        context = new_context(ctx, self.name)
        source = dataset.iterator(context)
        with self._changed:
            old = self._context, self._source
            self._context, self._source, self._dataset = context, source, dataset
            self._returned.clear()
        _end(*old)

    @property
    def is_initialized(self) -> bool:
        """Whether there is a dataset to take elements from."""
        return self._source is not None

    def get_next(self, ctx: Any, convert: Convert = or_out_of_range) -> Any:
        """The next element, or a Future of it.

        Args:
          ctx: The step.
          convert: From its components, or None at the end, to the outputs.

        Raises:
          OutOfRangeError: There is none.
          FailedPreconditionError: It was not initialised.
        """
        dataset = self._dataset
        if dataset is None or self._source is None:
            raise errors.FailedPreconditionError(
                None,
                None,
                "GetNext() failed because the iterator has not been initialized. Ensure that you "
                "have run the initializer operation for this iterator before getting the next "
                "element.",
            )
        if not self._requests and self._pulling.acquire(blocking=False):
            try:
                if not self._requests and self._is_at_hand(dataset):
                    return convert(self._pull())
            finally:
                self._pulling.release()
        return self._ask(ctx, convert)

    def _is_at_hand(self, dataset: Dataset) -> bool:
        source = self._source
        if self._returned or dataset.is_quick:
            return True
        return isinstance(source, PrefetchIterator) and source.is_ready

    def _ask(self, ctx: Any, convert: Convert) -> Any:
        future = ctx.future(f"the next element of iterator '{self.name}'")
        request = _Request(future, ctx.cancellation, convert)
        request.token = ctx.cancellation.register(request.cancel)
        if request.token is None:
            request.cancel()
            return future
        with self._changed:
            if self._is_closed:
                raise _closed(self.name)
            self._requests.append(request)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name=f"iterator {self.name}", daemon=True
                )
                self._thread.start()
            self._changed.notify_all()
        return future

    def _pull(self) -> list[Any] | None:
        """One element, or None at the end; with `_pulling` held."""
        with self._changed:
            if self._returned:
                return self._returned.popleft()
            source, dataset = self._source, self._dataset
        if source is None or dataset is None:
            raise _closed(self.name)
        try:
            return arrays(source.next(), dataset.kinds)
        except EndOfSequence:
            return None

    def _run(self) -> None:
        entered: Context | None = None
        while True:
            with self._changed:
                while not self._requests and not self._is_closed:
                    self._changed.wait()
                if self._is_closed:
                    return
                context = self._context
            if context is not None and context is not entered:
                context.enter()
                entered = context
            with self._pulling:
                with self._changed:
                    request = self._requests[0] if self._requests else None
                if request is None:
                    continue
                element = outputs = error = None
                if not request.future.done:
                    try:
                        element = self._pull()
                        outputs = request.convert(element)
                    except Exception as caught:
                        error = caught
                with self._changed:
                    if self._requests and self._requests[0] is request:
                        self._requests.popleft()
            request.cancellation.deregister(request.token)
            if error is not None:
                request.future.set_error(error)
            elif outputs is not None and not request.future.set_result(outputs):
                with self._changed:
                    if element is not None:
                        self._returned.append(element)
            del request, outputs, error, element

    def save(self) -> bytes:
        """The state of the iterator, to go on from in another process."""
        with self._pulling:
            if self._source is None:
                raise errors.FailedPreconditionError(
                    None, None, "SerializeIterator: the iterator has not been initialized."
                )
            returned = [list(element) for element in self._returned]
            return state_tensors.packed({"returned": returned, "source": self._source.save()})

    def restore(self, data: bytes) -> None:
        """Goes on where `save` was called; it must be initialised with the same dataset."""
        state = state_tensors.unpacked(data)
        with self._pulling:
            if self._source is None:
                raise errors.FailedPreconditionError(
                    None,
                    None,
                    "DeserializeIterator: the iterator has not been initialized: run its "
                    "initializer before its state is restored.",
                )
            try:
                self._source.restore(state["source"])
            except (KeyError, TypeError, IndexError) as error:
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    f"The saved state is that of another pipeline than iterator '{self.name}' has: "
                    f"{error}",
                ) from None
            self._returned = deque(state["returned"])

    def close(self) -> None:
        """Its container was cleared, or its session closed: threads end, and waits."""
        with self._changed:
            self._is_closed = True
            requests, self._requests = list(self._requests), deque()
            context, source = self._context, self._source
            self._context = self._source = self._dataset = None
            self._changed.notify_all()
        _end(context, None)
        for request in requests:
            request.future.set_error(_closed(self.name))
        if source is not None and self._pulling.acquire(timeout=1.0):
            try:
                source.close()
            finally:
                self._pulling.release()


def _end(context: Context | None, source: PullIterator | None) -> None:
    if context is not None:
        context.close()
    if source is not None:
        source.close()


def _closed(name: str) -> errors.CancelledError:
    return errors.CancelledError(None, None, f"Iterator '{name}' was closed.")


def check_same(
    types: Sequence[DType],
    shapes: Sequence[TensorShape],
    found_types: Sequence[DType],
    found_shapes: Sequence[TensorShape],
) -> None:
    """Holds the elements that there are against those that are wanted.

    Raises:
      ValueError: They differ.
    """
    if not types:
        return
    if len(types) != len(found_types):
        raise ValueError(
            f"Number of components does not match: expected {len(types)} types but got "
            f"{len(found_types)}."
        )
    for i, (want, found) in enumerate(zip(types, found_types, strict=True)):
        if want.base_dtype != found.base_dtype:
            raise ValueError(
                f"Data type mismatch at component {i}: expected {type_text(want)} but got "
                f"{type_text(found)}."
            )
    for i, (wanted, given) in enumerate(zip(shapes, found_shapes, strict=False)):
        if not wanted.is_compatible_with(given):
            raise ValueError(
                f"Incompatible shapes at component {i}: expected {_text(wanted)} but got "
                f"{_text(given)}."
            )


def _text(shape: TensorShape) -> str:
    return "<unknown>" if shape.sizes is None else shape_text(shape.sizes)
