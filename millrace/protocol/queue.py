"""Queues of elements: who may enqueue and dequeue when, and what closing does to them.

Requests wait in two lists, one for enqueues (and closing) and one for dequeues; only the first of
each list makes progress, so requests are served in the order in which they came. A request for
several elements takes or gives them one by one as it can. After each event both lists are
advanced until nothing moves. This is TensorFlow's discipline, and so are the texts of the errors.

Invariants: a closed queue accepts nothing more; only the first waiting dequeue holds elements; an
element that a dequeue gives up returns to where it was taken from.
"""

from __future__ import annotations

import heapq
import itertools
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, TypeVar

from millrace.core import errors
from millrace.core.value import JsonValue
from millrace.protocol.attempt import Attempt
from millrace.protocol.replication.mirror import WHOLE, Event, Listener

#: The components of one element.
Element = tuple[Any, ...]


#: An operation that waits at one end of a queue.
Waiting = TypeVar("Waiting", bound=Attempt)


class Enqueue(Attempt):
    """Elements to be added, one after the other as there is room."""

    __slots__ = ("elements",)

    def __init__(self, elements: Iterable[Element]) -> None:
        self.done = False
        self.waiter = None
        self._value = None
        self.error = None
        self.events = None
        #: Those that are not in the queue yet.
        self.elements = deque(elements)


class Dequeue(Attempt):
    """Elements to be taken; its value is the list of them.

    Attributes:
      missing: How many are still wanted.
      taken: Those collected so far.
      allow_small_batch: Whether the rest of a closed queue will do.
    """

    __slots__ = ("allow_small_batch", "missing", "taken")

    def __init__(self, count: int, allow_small_batch: bool = False) -> None:
        self.done = False
        self.waiter = None
        self._value = None
        self.error = None
        self.events = None
        self.missing = count
        self.allow_small_batch = allow_small_batch
        self.taken: list[Element] = []


class Close(Attempt):
    """Closing, after the enqueues that wait."""

    __slots__ = ()


class QueueState(ABC):
    """A queue; how it orders its elements is for subclasses to say.

    Attributes:
      name: Its name, for errors.
      capacity: How many elements it holds at most.
      is_closed: Whether it was closed.
      was_fed: Whether anybody ever wanted to add to it.
      listener: Is told of all that changes it, if another task follows.
    """

    #: The op type without its version.
    kind: ClassVar[str]

    def __init__(self, name: str, capacity: int) -> None:
        self.name = name
        self.capacity = capacity if capacity >= 0 else 2**31 - 1
        self.is_closed = False
        self.was_fed = False
        self._enqueues: deque[Enqueue | Close] = deque()
        self._dequeues: deque[Dequeue] = deque()
        self.listener: Listener | None = None
        #: For who follows: a number for each element that is there, by its identity; and of a queue
        #: that follows another one the elements, by their numbers.
        self._serials: dict[int, int] = {}
        self._followed: dict[int, Element] = {}
        self._last_serial = 0

    @property
    def dequeues_waiting(self) -> int:
        """How many requests wait for elements."""
        return len(self._dequeues)

    @abstractmethod
    def __len__(self) -> int:
        """How many elements it holds."""

    @abstractmethod
    def _put(self, element: Element) -> None:
        """Adds an element."""

    @abstractmethod
    def _take(self) -> Element:
        """Removes the next element."""

    @abstractmethod
    def _put_back(self, elements: list[Element]) -> None:
        """Undoes taking these, in that order."""

    def _available(self) -> int:
        """How many elements may be taken now."""
        return len(self)

    def _put_some(self, elements: deque[Element]) -> bool:
        """Adds as many of the elements as there is room for, and removes them; whether any."""
        room = min(self.capacity - len(self), len(elements))
        for _ in range(room):
            self._put(elements.popleft())
        return room > 0

    def _take_some(self, count: int) -> list[Element]:
        """Removes up to `count` of the elements that may be taken now."""
        return [self._take() for _ in range(min(count, self._available()))]

    # -- Events: each returns the attempts that it has settled -----------------------------

    def submit(self, attempt: Enqueue | Dequeue | Close) -> list[Attempt]:
        """A new request."""
        if isinstance(attempt, Dequeue):
            self._dequeues.append(attempt)
        else:
            self.was_fed |= isinstance(attempt, Enqueue)
            self._enqueues.append(attempt)
        return self._advance_all()

    def cancel(self, attempt: Enqueue | Dequeue | Close) -> list[Attempt]:
        """The step that made the request was cancelled."""
        if attempt.done:
            return []
        if isinstance(attempt, Dequeue):
            self._dequeues.remove(attempt)
            self._give_up(attempt)
            attempt.fail(errors.CancelledError(None, None, "Dequeue operation was cancelled"))
        else:
            self._enqueues.remove(attempt)
            attempt.fail(errors.CancelledError(None, None, "Enqueue operation was cancelled"))
        return [attempt, *self._advance_all()]

    def take_present(self, count: int) -> tuple[list[Element], list[Attempt]]:
        """Takes up to `count` of the elements that are there, and waits for none.

        Returns:
          The elements, and the attempts that this has settled.
        """
        if self._dequeues:  # They have taken what there is.
            return [], []
        taken = self._take_some(count)
        self._note_taken(taken, None)
        return taken, self._advance_all()

    def close_and_cancel(self) -> list[Attempt]:
        """Closes at once; enqueues that wait fail."""
        self._close(None)
        cancelled, self._enqueues = list(self._enqueues), deque()
        for attempt in cancelled:
            attempt.fail(errors.CancelledError(None, None, "Enqueue operation was cancelled"))
        return [*cancelled, *self._advance_all()]

    def abandon(self) -> list[Attempt]:
        """The queue itself goes away: nothing that waits will ever be served."""
        waiting: list[Attempt] = [*self._enqueues, *self._dequeues]
        self._enqueues.clear()
        self._dequeues.clear()
        self.is_closed = True
        for attempt in waiting:
            attempt.fail(
                errors.CancelledError(None, None, f"{self.kind} '{self.name}' was removed.")
            )
        return waiting

    # -- Progress --------------------------------------------------------------------------

    def _advance_all(self) -> list[Attempt]:
        settled: list[Attempt] = []
        moved = True
        while moved:
            moved = False
            if self._enqueues:
                moved = self._advance(self._enqueues, self._try_enqueue, settled)
            if self._dequeues:
                moved |= self._advance(self._dequeues, self._try_dequeue, settled)
        return settled

    def _advance(
        self,
        waiting: deque[Waiting],
        attempt_one: Callable[[Waiting], bool],
        settled: list[Attempt],
    ) -> bool:
        moved = False
        while waiting:
            first = waiting[0]
            moved |= attempt_one(first)
            if not first.done:
                break
            waiting.popleft()
            settled.append(first)
        return moved

    def _try_enqueue(self, attempt: Enqueue | Close) -> bool:
        """Lets the first enqueue do what it can; whether it did anything."""
        if isinstance(attempt, Close):
            if self.is_closed:
                attempt.fail(
                    errors.CancelledError(None, None, f"Queue '{self.name}' is already closed.")
                )
            else:
                self._close(attempt)
                attempt.succeed()
            return True
        if self.is_closed:
            attempt.fail(errors.CancelledError(None, None, f"{self.kind} '{self.name}' is closed."))
            return True
        before = None if self.listener is None else list(attempt.elements)
        moved = self._put_some(attempt.elements)
        if before is not None and moved:
            self._note_put(before[: len(before) - len(attempt.elements)], attempt)
        if not attempt.elements:
            attempt.succeed()
            return True
        return moved

    def _try_dequeue(self, attempt: Dequeue) -> bool:
        """Lets the first dequeue do what it can; whether it did anything."""
        if self.is_closed and len(self) < attempt.missing:
            size, missing = len(self), attempt.missing
            self._give_up(attempt)
            if not (attempt.allow_small_batch and len(self)):
                attempt.fail(
                    errors.OutOfRangeError(
                        None,
                        None,
                        f"{self.kind} '{self.name}' is closed and has insufficient elements "
                        f"(requested {missing}, current size {size})",
                    )
                )
                return True
            attempt.missing = len(self)
        taken = self._take_some(attempt.missing)
        attempt.taken += taken
        attempt.missing -= len(taken)
        if not attempt.missing:
            attempt.succeed(attempt.taken)
            if self.listener is not None:
                self._note_taken(attempt.taken, attempt)
            return True
        return bool(taken)

    def _give_up(self, attempt: Dequeue) -> None:
        self._put_back(attempt.taken)
        attempt.missing += len(attempt.taken)
        attempt.taken = []

    def _close(self, attempt: Attempt | None) -> None:
        self.is_closed = True
        if self.listener is not None:
            self.listener(attempt, Event("close"))

    # -- Following another one: see `protocol.replication.mirror` ---------------------------
    #
    # What a dequeue that waits has collected is told when it has all: until then it would return.

    @abstractmethod
    def _elements_here(self) -> Iterable[Element]:
        """The elements that it holds."""

    def _number(self, elements: Sequence[Element]) -> list[int]:
        first = self._last_serial + 1
        self._last_serial += len(elements)
        serials = list(range(first, first + len(elements)))
        self._serials.update(zip(map(id, elements), serials, strict=True))
        return serials

    def _note_put(self, elements: Sequence[Element], attempt: Attempt) -> None:
        assert self.listener is not None
        self.listener(attempt, _elements_event("put", self._number(elements), elements))

    def _note_taken(self, elements: Sequence[Element], attempt: Attempt | None) -> None:
        if self.listener is not None and elements:
            serials = [self._serials.pop(id(element)) for element in elements]
            self.listener(attempt, Event("take", serials))

    def as_event(self) -> Event:
        """Its whole state, for who follows it from now on."""
        found = dict(self._followed)
        if not found:
            here = [*self._elements_here()]
            if self._dequeues:
                here += self._dequeues[0].taken
            unknown = [element for element in here if id(element) not in self._serials]
            self._number(unknown)
            found = {self._serials[id(element)]: element for element in here}
        serials = sorted(found)
        event = _elements_event(WHOLE, serials, [found[serial] for serial in serials])
        words = {"serials": serials, "closed": self.is_closed, "fed": self.was_fed}
        return Event(WHOLE, {**words, "last": self._last_serial}, event.values)

    def follow(self, event: Event) -> None:
        """The same has happened elsewhere."""
        what, words, values = event
        if what == "put":
            self.was_fed = True
            self._followed.update(_elements_of(words, values))
            self._last_serial = max(self._last_serial, *words)
        elif what == "take":
            for serial in words:
                del self._followed[serial]
        elif what == "close":
            self.is_closed = True
        else:
            assert what == WHOLE, what
            self._followed = dict(_elements_of(words["serials"], values))
            self.is_closed, self.was_fed = words["closed"], words["fed"]
            self._last_serial = words["last"]

    def serve_followed(self) -> None:
        """Follows no more: what it has followed is what it holds."""
        for serial, element in sorted(self._followed.items()):
            self._serials[id(element)] = serial
            self._put(element)
        self._followed.clear()


def _elements_event(what: str, serials: list[int], elements: Sequence[Element]) -> Event:
    return Event(what, serials, [value for element in elements for value in element])


def _elements_of(
    serials: Sequence[JsonValue], values: Sequence[object]
) -> Iterable[tuple[int, Element]]:
    """Elements by their numbers, whose components come one after the other."""
    size = len(values) // max(1, len(serials))
    return ((serial, tuple(values[i * size : (i + 1) * size])) for i, serial in enumerate(serials))


class FifoQueueState(QueueState):
    """First in, first out."""

    kind = "FIFOQueue"

    def __init__(self, name: str, capacity: int) -> None:
        super().__init__(name, capacity)
        self._elements: deque[Element] = deque()

    def __len__(self) -> int:
        return len(self._elements)

    def _put(self, element: Element) -> None:
        self._elements.append(element)

    def _put_some(self, elements: deque[Element]) -> bool:
        held = self._elements
        if len(held) + len(elements) > self.capacity:
            return super()._put_some(elements)
        if not elements:
            return False
        held += elements
        elements.clear()
        return True

    def _take(self) -> Element:
        return self._elements.popleft()

    def _take_some(self, count: int) -> list[Element]:
        held = self._elements
        if count >= len(held):
            taken = list(held)
            held.clear()
            return taken
        return [held.popleft()] if count == 1 else super()._take_some(count)

    def _put_back(self, elements: list[Element]) -> None:
        self._elements.extendleft(reversed(elements))

    def _elements_here(self) -> Iterable[Element]:
        return self._elements


class PaddingFifoQueueState(FifoQueueState):
    """First in, first out; elements may differ in shape."""

    kind = "PaddingFIFOQueue"


class RandomShuffleQueueState(QueueState):
    """Elements come out in random order, once enough are there to choose from.

    Args:
      choose: ``choose(n)`` gives a random number from 0 to n - 1.
      min_after_dequeue: How many elements a dequeue must leave, until the queue is closed.
    """

    kind = "RandomShuffleQueue"

    def __init__(
        self, name: str, capacity: int, min_after_dequeue: int, choose: Callable[[int], int]
    ) -> None:
        super().__init__(name, capacity)
        self._min_after_dequeue = min_after_dequeue
        self._choose = choose
        self._elements: list[Element] = []

    def __len__(self) -> int:
        return len(self._elements)

    def _available(self) -> int:
        return len(self) if self.is_closed else len(self) - self._min_after_dequeue

    def _put(self, element: Element) -> None:
        self._elements.append(element)

    def _take(self) -> Element:
        i = self._choose(len(self._elements))
        self._elements[i], self._elements[-1] = self._elements[-1], self._elements[i]
        return self._elements.pop()

    def _put_back(self, elements: list[Element]) -> None:
        self._elements.extend(elements)

    def _elements_here(self) -> Iterable[Element]:
        return self._elements


class PriorityQueueState(QueueState):
    """The element with the lowest first component comes first; equals in order of arrival."""

    kind = "PriorityQueue"

    def __init__(self, name: str, capacity: int) -> None:
        super().__init__(name, capacity)
        self._heap: list[tuple[int, int, Element]] = []
        self._arrivals = itertools.count()
        #: Elements that return come before equals that have arrived since.
        self._returns = itertools.count(-1, -1)

    def __len__(self) -> int:
        return len(self._heap)

    def _put(self, element: Element) -> None:
        heapq.heappush(self._heap, (int(element[0]), next(self._arrivals), element))

    def _take(self) -> Element:
        return heapq.heappop(self._heap)[2]

    def _put_back(self, elements: list[Element]) -> None:
        for element in reversed(elements):
            heapq.heappush(self._heap, (int(element[0]), next(self._returns), element))

    def _elements_here(self) -> Iterable[Element]:
        return (element for _, _, element in sorted(self._heap))
