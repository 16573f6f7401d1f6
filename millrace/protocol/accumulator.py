"""Accumulators: gradients of several workers, summed until enough are there.

A gradient carries the step that it was computed at. One that is older than the accumulator's own
step is stale and dropped without a word: that is how synchronous training leaves stragglers
behind. A take waits until enough fresh gradients are there, gets their mean or sum, and
moves the accumulator to its next step. When the step is set back, the model was restored: what was
accumulated belongs to steps that never were, and is dropped (TensorFlow would keep it, and apply
it to a model that it was not computed for).

Gradients may say who computed them. Then a contributor that begins again, because its step failed
or its process died, is known to have one here already or not: if it has, its next one repeats it,
and is dropped. So in one round each accumulator of a model counts it once, also those that a
failed step had not reached.

Invariants: takes are served in the order in which they came; taking empties the accumulator and
adds one to its step. A repeat is dropped at most once for each time that its contributor began,
and only in the round in which it began.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from millrace.core import errors
from millrace.core.tensor_shape import TensorShape
from millrace.core.value import JsonObject, JsonValue, Value
from millrace.protocol.attempt import Attempt
from millrace.protocol.replication.mirror import WHOLE, Event, Listener

Array = np.ndarray[Any, Any]


#: No attempt is settled; not to be changed.
_NOTHING: list[Attempt] = []


class Take(Attempt):
    """A request for the mean or sum of at least `required` gradients.

    Attributes:
      required: How many.
      taken: What was taken, for who gives it back; known only if another task follows.
    """

    __slots__ = ("required", "taken")

    def __init__(self, required: int) -> None:
        self.done = False
        self.waiter = None
        self._value = None
        self.error = None
        self.events = None
        self.taken: Event | None = None
        self.required = required


class AccumulatorState(ABC):
    """What dense and sparse accumulators share.

    Attributes:
      global_step: Gradients of earlier steps are stale.
      applied_step: The step that the model is at here, as far as those who take say it.
      count: How many gradients are accumulated.
      stale: How many were dropped because they came too late.
      contributors: How many of them are whose, as far as they say.
      beginnings: How often it was emptied for a round to begin.
      began_at: The step of the first round since then.
      chiefs: How many chiefs have asked which round to go on with.
      listener: Is told of all that changes it, if another task follows.
    """

    def __init__(self, name: str, shape: TensorShape, takes_mean: bool) -> None:
        self.name = name
        self.shape = shape
        self.takes_mean = takes_mean
        self.global_step = 0
        self.applied_step = 0
        self.count = 0
        self.stale = 0
        self.contributors: dict[str, int] = {}
        #: Whose next gradient is a repeat.
        self._repeating: set[str] = set()
        #: Every contributor so far, and to which step it contributed last.
        self._last_steps: dict[str, int] = {}
        self._takes: deque[Take] = deque()
        self.beginnings = self.began_at = self.chiefs = 0
        self.listener: Listener | None = None

    def _note(self, what: str, words: JsonValue = None, attempt: Attempt | None = None) -> None:
        """Tells who follows."""
        if self.listener is not None:
            self.listener(attempt, Event(what, words))

    @property
    def required(self) -> int:
        """How many gradients the first who waits needs; 0 if nobody waits."""
        return self._takes[0].required if self._takes else 0

    @abstractmethod
    def _add(self, gradient: Value, is_own: bool) -> None:
        """Adds a gradient; raises ValueError if it does not fit."""

    @abstractmethod
    def _total(self) -> Value:
        """The mean or sum; then nothing is accumulated any more."""

    @abstractmethod
    def _drop(self) -> None:
        """Nothing is accumulated any more."""

    @abstractmethod
    def _as_values(self, gradient: Value) -> list[Array]:
        """The arrays of a gradient."""

    @abstractmethod
    def _of_values(self, values: Sequence[object]) -> Value:
        """The gradient that arrays are."""

    @abstractmethod
    def _accumulated(self) -> list[list[Array]]:
        """The arrays of all that is accumulated, each as those of a gradient."""

    # -- Events: each returns the attempts that it has settled -----------------------------

    def apply(
        self, gradient: Value, local_step: int, contributor: str = "", *, is_own: bool = False
    ) -> list[Attempt]:
        """A gradient arrived that was computed at `local_step`.

        Args:
          gradient: The gradient.
          local_step: The step.
          contributor: Who computed it, if that is known.
          is_own: Whether nobody else has its memory, so that others may be added in place.

        Raises:
          ValueError: It does not fit.
        """
        if local_step < self.global_step:
            self.stale += 1
            self._note("stale")
            return _NOTHING
        if contributor in self._repeating:
            self._repeating.discard(contributor)
            self._note("repeat", contributor)
            return _NOTHING
        # What is told must stay as it is.
        self._add(gradient, is_own and self.listener is None)
        self.count += 1
        if contributor:
            self._last_steps[contributor] = self.global_step
            self.contributors[contributor] = self.contributors.get(contributor, 0) + 1
        if self.listener is not None:
            self.listener(None, Event("add", contributor, self._as_values(gradient)))
        if self._takes and self.count >= self._takes[0].required:
            return self._serve()
        return _NOTHING

    def begins_again(self, contributor: str) -> bool:
        """A contributor begins, maybe not for the first time; whether its next one is a repeat."""
        if contributor not in self.contributors:
            return False
        self._repeating.add(contributor)
        self._note("again", contributor)
        return True

    def set_global_step(self, step: int) -> None:
        """Gradients of earlier steps are stale from now on."""
        if step < self.global_step:
            self._empty()
        self.global_step = self.applied_step = step
        self._note("step", step)

    def begin_round(self, step: int) -> None:
        """A round begins, or begins again, with nothing accumulated."""
        self._empty()
        self.global_step = self.applied_step = self.began_at = step
        self.beginnings += 1
        self._note("begin", step)

    def begin_first_round(self, step: int) -> None:
        """The first round of all begins: who was sooner than the chief has contributed to it."""
        self.global_step = self.applied_step = self.began_at = step
        self.beginnings = 1
        self._note("first", step)

    def will_apply(self) -> None:
        """What was taken last is about to be applied."""
        self.applied_step = self.global_step
        self._note("apply")

    def chief_arrived(self) -> int:
        """Another chief goes on with the rounds; how many there were."""
        self.chiefs += 1
        self._note("chief")
        return self.chiefs

    def submit(self, attempt: Take) -> list[Attempt]:
        """A new request."""
        self._takes.append(attempt)
        return self._serve() if self.count >= self._takes[0].required else _NOTHING

    def cancel(self, attempt: Take) -> list[Attempt]:
        """The step that made the request was cancelled."""
        if attempt.done:
            return []
        self._takes.remove(attempt)
        attempt.fail(errors.CancelledError(None, None, "TakeGrad operation was cancelled"))
        return [attempt, *self._serve()]

    def give_back(self, attempt: Take) -> list[Attempt]:
        """A step that has taken something cannot use it: it is as if it had taken nothing."""
        taken, attempt.taken = attempt.taken, None
        if taken is None or taken.words["global_step"] != self.global_step - 1:
            return _NOTHING
        since = self.as_event()
        self._become(taken.words, taken.values)
        for values in self._parts_of(since):
            self._add(self._of_values(values), False)
        self.count += since.words["count"]
        for contributor, count in since.words["contributors"].items():
            self.contributors[contributor] = self.contributors.get(contributor, 0) + count
        for name in ("stale", "chiefs", "beginnings", "began_at"):
            setattr(self, name, since.words[name])
        self._last_steps = dict(since.words["last_steps"])
        if self.listener is not None:
            self.listener(attempt, self.as_event())
        return self._serve() if self._takes and self.count >= self.required else _NOTHING

    def abandon(self) -> list[Attempt]:
        """The accumulator itself goes away."""
        waiting: list[Attempt] = list(self._takes)
        self._takes.clear()
        for attempt in waiting:
            attempt.fail(
                errors.CancelledError(None, None, f"Accumulator '{self.name}' was removed.")
            )
        return waiting

    def describe(self, required: int) -> str:
        """What a take waits for, in words."""
        words = f"{required} gradients in accumulator '{self.name}', which has {self.count}"
        missing = sorted(
            contributor
            for contributor, step in self._last_steps.items()
            # Not those that have left long ago.
            if contributor not in self.contributors and step >= self.global_step - 2
        )
        if missing:
            words += (
                f" of step {self.global_step}: none from {', '.join(missing)}. Check that it runs, "
                "and start it again if it does not"
            )
        elif self.contributors:
            words += f", from {', '.join(sorted(self.contributors))}"
        return words

    def next_take(self) -> str:
        """What the first take waits for, in words; empty if there is none."""
        return self.describe(self._takes[0].required) if self._takes else ""

    def _empty(self) -> None:
        """Nothing is counted any more."""
        self._drop()
        self.count = 0
        self.contributors.clear()
        self._repeating.clear()

    def _serve(self) -> list[Attempt]:
        settled: list[Attempt] = []
        while self._takes and self.count >= self._takes[0].required:
            attempt = self._takes.popleft()
            if self.listener is not None:
                attempt.taken = self.as_event()
            attempt.succeed(self._total())
            self.count = 0
            self.contributors.clear()
            self._repeating.clear()
            self.global_step += 1
            if self.listener is not None:
                self._note("take", None, attempt)
            settled.append(attempt)
        return settled

    # -- Following another one: see `protocol.replication.mirror` ---------------------------

    def as_event(self) -> Event:
        """Its whole state."""
        accumulated = self._accumulated()
        words = {
            "global_step": self.global_step,
            "applied_step": self.applied_step,
            "count": self.count,
            "stale": self.stale,
            "contributors": dict(self.contributors),
            "repeating": sorted(self._repeating),
            "last_steps": dict(self._last_steps),
            "beginnings": self.beginnings,
            "began_at": self.began_at,
            "chiefs": self.chiefs,
            "parts": len(accumulated),
        }
        return Event(WHOLE, words, [value for part in accumulated for value in part])

    def follow(self, event: Event) -> None:
        """The same has happened elsewhere."""
        what, words, values = event
        if what == "add":
            self.apply(self._of_values(values), self.global_step, words)
        elif what == "stale":
            self.stale += 1
        elif what == "repeat":
            self._repeating.discard(words)
        elif what == "again":
            self._repeating.add(words)
        elif what == "take":
            self._empty()
            self.global_step += 1
        elif what == "step":
            self.set_global_step(words)
        elif what == "begin":
            self.begin_round(words)
        elif what == "first":
            self.begin_first_round(words)
        elif what == "apply":
            self.will_apply()
        elif what == "chief":
            self.chief_arrived()
        else:
            assert what == WHOLE, what
            self._become(words, values)

    @staticmethod
    def _parts_of(event: Event) -> list[Sequence[object]]:
        """The arrays of each part that is accumulated, in an event that has the whole state."""
        if not event.words["parts"]:
            return []
        size = len(event.values) // event.words["parts"]
        return [event.values[i : i + size] for i in range(0, len(event.values), size)]

    def serve_followed(self) -> None:  # noqa: B027
        """Others may use it: it is as it should be."""

    def _become(self, words: JsonObject, values: Sequence[object]) -> None:
        self._empty()
        for part in self._parts_of(Event(WHOLE, words, values)):
            self._add(self._of_values(part), False)
        self.global_step, self.applied_step = words["global_step"], words["applied_step"]
        self.count, self.stale = words["count"], words["stale"]
        self.contributors = dict(words["contributors"])
        self._repeating = set(words["repeating"])
        self._last_steps = dict(words["last_steps"])
        self.beginnings, self.began_at = words["beginnings"], words["began_at"]
        self.chiefs = words["chiefs"]


class DenseAccumulatorState(AccumulatorState):
    """Sums arrays of one shape."""

    def __init__(self, name: str, shape: TensorShape, takes_mean: bool) -> None:
        super().__init__(name, shape, takes_mean)
        self._sizes = shape.sizes
        self._sum: Array | None = None
        #: Whether the sum is an array of our own, that may be changed.
        self._is_own = False

    def _add(self, gradient: Array, is_own: bool) -> None:
        wanted: Any = self._sum.shape if self._sum is not None else self._sizes
        if (
            wanted is not None
            and wanted != gradient.shape
            and (
                len(wanted) != gradient.ndim
                or any(a not in (None, b) for a, b in zip(wanted, gradient.shape, strict=True))
            )
        ):
            raise ValueError(
                f"Shape mismatch: expected {_shape_text(wanted)}, got {_shape_text(gradient.shape)}"
            )
        if self._sum is None:
            self._sum, self._is_own = gradient, is_own
        elif self._is_own:
            np.add(self._sum, gradient, out=self._sum)
        elif is_own:
            self._sum, self._is_own = np.add(self._sum, gradient, out=gradient), True
        else:
            self._sum, self._is_own = np.asarray(self._sum + gradient), True

    def _total(self) -> Array:
        total, self._sum = self._sum, None
        assert total is not None
        if not self.takes_mean or self.count == 1:
            return total
        if self._is_own and total.dtype.kind == "f":
            if self.count & (self.count - 1) == 0:  # The same numbers, and sooner.
                return np.multiply(total, 1 / self.count, out=total)
            return np.true_divide(total, self.count, out=total)
        return _divided(total, self.count, total if self._is_own else None)

    def _drop(self) -> None:
        self._sum = None

    def _as_values(self, gradient: Array) -> list[Array]:
        return [gradient]

    def _of_values(self, values: Sequence[object]) -> Array:
        return np.asarray(values[0])

    def _accumulated(self) -> list[list[Array]]:
        return [] if self._sum is None else [[self._sum.copy()]]


class SparseAccumulatorState(AccumulatorState):
    """Sums rows by their index; a mean is over the gradients that have the row at all."""

    def __init__(self, name: str, shape: TensorShape, takes_mean: bool) -> None:
        super().__init__(name, shape, takes_mean)
        self._parts: list[tuple[Array, Array]] = []

    def _add(self, gradient: tuple[Array, Array, Array | None], is_own: bool) -> None:
        """Takes (indices, values, shape of the whole or None)."""
        indices, values, shape = gradient
        self._check(indices, values, shape)
        self._parts.append((indices, values))

    def _check(self, indices: Array, values: Array, shape: Array | None) -> None:
        if indices.ndim != 1:
            raise ValueError(
                f"Input indices should be vector but received shape: {_shape_text(indices.shape)}"
            )
        if values.ndim == 0:
            raise ValueError("Values cannot be 0-dimensional.")
        if len(values) != len(indices):
            raise ValueError(f"Expected {len(indices)} non-empty input values, got {len(values)}")
        wanted = self.shape.sizes
        if wanted is not None:
            if shape is not None:
                self._check_sizes("shape", shape.ravel().tolist(), wanted, 0)
            self._check_sizes("values", list(values.shape), wanted, 1)
            # The shape () stands for any: synchronous training declares it so.
            if wanted and wanted[0] is not None and (indices >= wanted[0]).any():
                i = int(np.argmax(indices >= wanted[0]))
                raise ValueError(
                    f"Shape mismatch: index of slice {i} exceeded limits of shape; index is "
                    f"{indices[i]} exceeded {wanted[0]}"
                )
        if self._parts:
            self._check_sizes("values", list(values.shape), (None, *self._parts[0][1].shape[1:]), 1)

    def _check_sizes(
        self, what: str, found: list[int], wanted: tuple[int | None, ...], first: int
    ) -> None:
        if len(found) < len(wanted):
            raise ValueError(
                f"Shape mismatch: expected {what} rank at least {len(wanted)}, got {len(found)}"
            )
        for i in range(first, len(wanted)):
            if wanted[i] is not None and found[i] != wanted[i]:
                raise ValueError(
                    f"Shape mismatch: expected {what} dim {i} to be {wanted[i]}, got {found[i]}"
                )

    def _total(self) -> tuple[Array, Array, Array]:
        """(indices, values, shape of the whole with -1 where it is not known)."""
        parts, self._parts = self._parts, []
        first = parts[0][1]
        whole = [-1, *first.shape[1:]]
        if self.shape.sizes and self.shape.sizes[0] is not None:
            whole[0] = self.shape.sizes[0]
        shape = np.array(whole, np.int64)
        if len(parts) == 1:
            return (*parts[0], shape)
        # Rows that repeat within one gradient count once.
        parts = [_by_index(indices, values) for indices, values in parts]
        all_indices = np.concatenate([indices for indices, _ in parts])
        indices, values = _by_index(all_indices, np.concatenate([v for _, v in parts]))
        if self.takes_mean:
            counts = np.unique(all_indices, return_counts=True)[1]
            values = _divided(values, counts.reshape(-1, *[1] * (values.ndim - 1)))
        return indices, values, shape

    def _drop(self) -> None:
        self._parts = []

    def _as_values(self, gradient: tuple[Array, Array, Array | None]) -> list[Array]:
        return [gradient[0], gradient[1]]

    def _of_values(self, values: Sequence[object]) -> tuple[Array, Array, None]:
        return np.asarray(values[0]), np.asarray(values[1]), None

    def _accumulated(self) -> list[list[Array]]:
        return [list(part) for part in self._parts]


def _by_index(indices: Array, values: Array) -> tuple[Array, Array]:
    """Sums the rows of each index; indices come out ascending."""
    order = np.argsort(indices, kind="stable")
    found, starts = np.unique(indices[order], return_index=True)
    if not len(found):
        return indices, values
    return found, np.add.reduceat(values[order], starts, axis=0)


def _divided(total: Array, count: int | Array, out: Array | None = None) -> Array:
    """The quotient, in `out` if that is given."""
    divisor = np.asarray(count, total.dtype)
    if total.dtype.kind in "iu":
        return np.asarray(np.floor_divide(total, divisor, out=out), total.dtype)
    return np.asarray(np.true_divide(total, divisor, out=out), total.dtype)


def _shape_text(sizes: Sequence[int | None]) -> str:
    return f"[{','.join('?' if size is None else str(size) for size in sizes)}]"
