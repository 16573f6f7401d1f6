"""What every dataset and every iterator is.

A `Dataset` is a description: types, shapes, where elements come from. `Dataset.iterator` makes a
`PullIterator`, which has the state. An iterator is pulled by one thread at a time; the owner of the
outermost one sees to that, and each iterator is the only one that pulls those above it.
"""

from __future__ import annotations

import abc
import threading
from collections.abc import Callable, Sequence
from typing import Any

from millrace.core import errors
from millrace.core.dtypes import DType
from millrace.core.tensor_shape import TensorShape
from millrace.data.pipeline.element import Element, components, numpy_type

#: What `Dataset.cardinality` answers for datasets without an end, and where nobody knows.
INFINITE, UNKNOWN = -1, -2

#: A user's function: from the components of elements to the components of its results.
Call = Callable[[Sequence[Any]], list[Any]]
#: What an iterator saves: numbers, bytes, arrays, lists and dicts of these.
State = dict[str, Any]


class EndOfSequence(Exception):
    """There is no further element."""


class Context:
    """What the iterators of one pipeline share: what it is called, and whether it is over.

    Attributes:
      name: The iterator's name, for threads and messages.
      enter: Called by every thread of the pipeline when it starts: it is confined to the files that
        the session may touch.
      closed: Set when nobody wants elements any more: threads end, waits are over.
    """

    def __init__(self, name: str = "", enter: Callable[[], None] = lambda: None) -> None:
        self.name = name
        self.enter = enter
        self.closed = threading.Event()
        self._lock = threading.Lock()
        self._closers: list[Callable[[], None]] = []

    def on_close(self, closer: Callable[[], None]) -> None:
        """Calls `closer` when the pipeline is closed; at once if it is."""
        with self._lock:
            if not self.closed.is_set():
                self._closers.append(closer)
                return
        closer()

    def forget(self, closer: Callable[[], None]) -> None:
        """Does not call `closer` any more."""
        with self._lock:
            if closer in self._closers:
                self._closers.remove(closer)

    def close(self) -> None:
        """Ends the pipeline: threads end, and who waits is told."""
        with self._lock:
            if self.closed.is_set():
                return
            self.closed.set()
            closers, self._closers = self._closers, []
        for closer in reversed(closers):
            closer()

    def check(self) -> None:
        """Raises CancelledError once the pipeline is closed."""
        if self.closed.is_set():
            raise errors.CancelledError(None, None, "The iterator was deleted or closed.")


class Dataset(abc.ABC):
    """A sequence of elements, described.

    Attributes:
      types: The types of an element's components.
      shapes: Their static shapes.
    """

    def __init__(self, types: Sequence[DType], shapes: Sequence[TensorShape]) -> None:
        self.types = list(types)
        self.shapes = list(shapes)
        self.kinds = [numpy_type(dtype) for dtype in self.types]

    @abc.abstractmethod
    def iterator(self, context: Context) -> PullIterator:
        """A new iterator at the first element."""

    def cardinality(self) -> int:
        """The number of elements, INFINITE or UNKNOWN."""
        return UNKNOWN

    @property
    def is_quick(self) -> bool:
        """Whether elements are made in microseconds, of what is in memory."""
        return all(source.is_quick for source in self.sources()) and bool(self.sources())

    def sources(self) -> list[Dataset]:
        """The datasets that this one reads."""
        return []


class PullIterator(abc.ABC):
    """The state of one pass over a dataset.

    A subclass has `next` or `take`. After an error an iterator can be pulled again: it goes on
    behind what failed.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self._held: Exception | None = None

    def next(self) -> Element:
        """The next element.

        Raises:
          EndOfSequence: There is none.
          Exception: It could not be made.
        """
        found = self.take(1)
        if not found:
            raise EndOfSequence
        return found[0]

    def take(self, count: int) -> list[Element]:
        """The next elements: at least one and at most `count`, or none at the end.

        Raises:
          Exception: The very next element could not be made. An error behind others is kept for
            the next call.
        """
        held, self._held = self._held, None
        if held is not None:
            raise held
        found: list[Element] = []
        try:
            while len(found) < count:
                found.append(self.next())
        except EndOfSequence:
            pass
        except Exception as error:
            if not found:
                raise
            self._held = error
        return found

    @abc.abstractmethod
    def save(self) -> State:
        """What `restore` needs to go on from here."""

    @abc.abstractmethod
    def restore(self, state: State) -> None:
        """Goes on where `save` was called."""

    def close(self) -> None:  # noqa: B027 - most have nothing to close
        """Nobody pulls it any more: threads end, files are closed."""


class Transformation(Dataset):
    """A dataset that reads one other, with its types and shapes unless others are given."""

    def __init__(
        self,
        source: Dataset,
        types: Sequence[DType] | None = None,
        shapes: Sequence[TensorShape] | None = None,
    ) -> None:
        super().__init__(
            source.types if types is None else types, source.shapes if shapes is None else shapes
        )
        self.source = source

    def sources(self) -> list[Dataset]:
        """The dataset that this one reads."""
        return [self.source]


class TransformingIterator(PullIterator):
    """An iterator over another one."""

    def __init__(self, dataset: Transformation, context: Context) -> None:
        super().__init__(context)
        self.source = dataset.source.iterator(context)

    def save(self) -> State:
        """The state of what it reads."""
        return {"source": self.source.save()}

    def restore(self, state: State) -> None:
        """Restores what it reads."""
        self._held = None
        self.source.restore(state["source"])

    def close(self) -> None:
        """Closes what it reads."""
        self.source.close()


def saved_elements(elements: Sequence[Element]) -> list[list[Any]]:
    """Elements in a form that can be saved."""
    return [list(components(element)) for element in elements]


def restored_elements(saved: Sequence[Sequence[Any]]) -> list[Element]:
    """The elements that `saved_elements` was given."""
    return [tuple(element) for element in saved]
