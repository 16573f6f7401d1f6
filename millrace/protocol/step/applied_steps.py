"""What each numbered step has changed on a task, so that a repeated step changes it once.

A supervised session repeats a step that a fault has ended. By then the step may have changed one
task and not another. So each attempt says which step it is of (`StepAttempt`), and each task keeps
a record of the *effects* that attempts of a step have had: an effect is what changes state at one
point of the step, say one update of some variables. The next attempt runs what is missing, and is
answered from the record for the rest.

The record is bounded: a client says with each attempt which of its steps are over, and clients that
have not been heard of for longest are forgotten. It is a plain value (`as_state`, `from_state`), so
a standby of the task can be sent it.

Invariants: an effect of a step is applied at most once, as long as its client is remembered; an
attempt has no effect once a later one of the same step has begun.
"""

from __future__ import annotations

import enum
import struct
from collections import Counter, OrderedDict
from collections.abc import Collection, Hashable, Sequence
from typing import NamedTuple

#: Clients that are remembered: workers of a job, and some of their predecessors.
MAX_CLIENTS = 1024
#: Unfinished steps that are remembered of one client; it runs no more at a time.
MAX_STEPS = 256

#: No attempt has such a number.
_FORGOTTEN = 1 << 32
_PACKED = struct.Struct("<qqqI")

#: The values that an effect has given the rest of its step.
Outputs = Sequence[object]


class StepAttempt(NamedTuple):
    """One attempt of one step.

    Attributes:
      client: A number that no two supervised sessions share, nor two incarnations of a worker.
      step: The number of the step; the client counts them.
      oldest: The client's oldest step that is not over.
      attempt: 1, 2, …; 0 for a step that nobody repeats.
    """

    client: int
    step: int
    oldest: int
    attempt: int

    def pack(self) -> bytes:
        """It as bytes."""
        return _PACKED.pack(*self)

    @classmethod
    def unpack(cls, data: bytes) -> StepAttempt:
        """The attempt that bytes tell of.

        Raises:
          ValueError: They tell of none.
        """
        if len(data) != PACKED_BYTES:
            raise ValueError(f"an attempt of a step has {PACKED_BYTES} bytes, not {len(data)}")
        return cls(*_PACKED.unpack(data))


PACKED_BYTES = _PACKED.size


class Verdict(enum.Enum):
    """What an attempt is to do about an effect."""

    APPLY = "apply"  # it has not been applied; tell `applied` or `failed`
    REPLAY = "replay"  # it has: its outputs are in the record
    WAIT = "wait"  # an earlier attempt is about to apply it
    REFUSE = "refuse"  # a later attempt has begun, or the step is over


class Effect(NamedTuple):
    """What changes state at one point of a step.

    Attributes:
      name: The same in each attempt, also in another session.
      variables: What it changes.
    """

    name: str
    variables: frozenset[str] = frozenset()


class _Outcome:
    """What became of an effect: which attempt has claimed it, its outputs once it is applied."""

    __slots__ = ("attempt", "is_applied", "outputs")

    def __init__(self, attempt: int, is_applied: bool = False, outputs: Outputs = ()) -> None:
        self.attempt = attempt
        self.is_applied = is_applied
        self.outputs = outputs


class _Step:
    """A step that is not over.

    Attributes:
      attempt: The latest attempt that has begun; larger than any once the step is forgotten.
      outcomes: The effects that were claimed.
    """

    __slots__ = ("attempt", "outcomes")

    def __init__(self, attempt: int = 0) -> None:
        self.attempt = attempt
        self.outcomes: dict[Effect, _Outcome] = {}


class RunningAttempt:
    """One attempt of a step, as the record of one task knows it."""

    __slots__ = ("_number", "_step")

    def __init__(self, step: _Step, number: int) -> None:
        self._step = step
        self._number = number

    def claim(self, effect: Effect) -> Verdict:
        """The attempt is about to have an effect; what it is to do."""
        step = self._step
        if self._number < step.attempt:
            return Verdict.REFUSE
        found = step.outcomes.get(effect)
        if found is None:
            step.outcomes[effect] = _Outcome(self._number)
            return Verdict.APPLY
        if found.is_applied:
            return Verdict.REPLAY
        # A stage that begins again has the claim already.
        return Verdict.APPLY if found.attempt == self._number else Verdict.WAIT

    def applied(self, effect: Effect, outputs: Outputs = ()) -> None:
        """An effect that was claimed has been applied, with these outputs."""
        found = self._step.outcomes.get(effect)
        if found is not None and found.attempt == self._number:
            found.is_applied, found.outputs = True, outputs

    def failed(self, effect: Effect) -> None:
        """An effect that was claimed has not been applied."""
        found = self._step.outcomes.get(effect)
        if found is not None and found.attempt == self._number and not found.is_applied:
            del self._step.outcomes[effect]

    def outputs(self, effect: Effect) -> Outputs:
        """The outputs of an effect that is to be replayed."""
        return self._step.outcomes[effect].outputs


class _Client:
    __slots__ = ("oldest", "steps")

    def __init__(self, oldest: int = 0) -> None:
        self.oldest = oldest
        self.steps: dict[int, _Step] = {}

    def forget(self, number: int) -> None:
        """A step is over, here or for good: attempts of it that still run have no effect."""
        self.steps.pop(number).attempt = _FORGOTTEN


class AppliedSteps:
    """The record of one task."""

    def __init__(self, max_clients: int = MAX_CLIENTS, max_steps: int = MAX_STEPS) -> None:
        self._max_clients = max_clients
        self._max_steps = max_steps
        #: The client that was heard of last is the last.
        self._clients: OrderedDict[int, _Client] = OrderedDict()

    def begin(self, attempt: StepAttempt) -> RunningAttempt | None:
        """An attempt begins; None when a later one has begun, or the step is over."""
        client = self._clients.get(attempt.client)
        if client is None:
            client = self._clients[attempt.client] = _Client()
            while len(self._clients) > self._max_clients:
                _, forgotten = self._clients.popitem(last=False)
                for number in list(forgotten.steps):
                    forgotten.forget(number)
        else:
            self._clients.move_to_end(attempt.client)
        if attempt.oldest > client.oldest:
            client.oldest = attempt.oldest
            for number in [n for n in client.steps if n < attempt.oldest]:
                client.forget(number)
        if attempt.step < client.oldest:
            return None
        step = client.steps.get(attempt.step)
        if step is None:
            step = client.steps[attempt.step] = _Step()
            while len(client.steps) > self._max_steps:
                client.forget(min(client.steps))
        if attempt.attempt < step.attempt:
            return None
        step.attempt = attempt.attempt
        return RunningAttempt(step, attempt.attempt)

    def follow(self, attempt: StepAttempt, effect: Effect, outputs: Outputs) -> None:
        """Another task has applied an effect, and this one has just done the same."""
        self.begin(attempt)  # None if a later one has begun: the effect counts all the same.
        client = self._clients[attempt.client]
        step = client.steps.get(attempt.step)
        if step is not None:
            step.outcomes[effect] = _Outcome(attempt.attempt, True, outputs)

    def replaced(self, variables: Collection[str]) -> None:
        """Variables were replaced, as by a checkpoint: what was applied before is not in them."""
        for client in self._clients.values():
            for step in client.steps.values():
                for effect in [e for e in step.outcomes if not e.variables.isdisjoint(variables)]:
                    del step.outcomes[effect]

    def as_state(self) -> State:
        """What is applied, as a plain value; claims that are under way are not part of it."""
        return tuple(
            ClientState(
                number,
                client.oldest,
                tuple(
                    StepState(
                        place,
                        step.attempt,
                        tuple((e, o.outputs) for e, o in step.outcomes.items() if o.is_applied),
                    )
                    for place, step in client.steps.items()
                ),
            )
            for number, client in self._clients.items()
        )

    @classmethod
    def from_state(cls, state: State) -> AppliedSteps:
        """The record that `as_state` has told of."""
        made = cls()
        for told in state:
            client = made._clients[told.client] = _Client(told.oldest)
            for each in told.steps:
                step = client.steps[each.step] = _Step(each.attempt)
                for effect, outputs in each.applied:
                    step.outcomes[effect] = _Outcome(each.attempt, True, outputs)
        return made


class StepState(NamedTuple):
    """A step in the state of a record: its latest attempt, and what is applied."""

    step: int
    attempt: int
    applied: tuple[tuple[Effect, Outputs], ...]


class ClientState(NamedTuple):
    """A client in the state of a record."""

    client: int
    oldest: int
    steps: tuple[StepState, ...]


State = tuple[ClientState, ...]


class StepCounter:
    """Numbers the steps of one client, and their attempts.

    Args:
      client: The client's number.
    """

    def __init__(self, client: int) -> None:
        self._client = client
        self._next = 1
        #: The steps that are not over, with how often each was begun.
        self._attempts: dict[int, int] = {}

    def begin(self) -> int:
        """A new step; its number."""
        step = self._next
        self._next += 1
        self._attempts[step] = 0
        return step

    def attempt(self, step: int) -> StepAttempt:
        """The next attempt of a step."""
        self._attempts[step] += 1
        return StepAttempt(self._client, step, min(self._attempts), self._attempts[step])

    def over(self, step: int) -> None:
        """A step has ended, well or not: it is not tried again."""
        del self._attempts[step]


class StepFunction:
    """Numbers the runs of a step function, which a fault lets begin again from its first line.

    Which run of the next attempt is which of the last one is told by what is run: the second run
    of some fetches is the second run of them again. A run that was not in an earlier attempt is a
    new step. What is fed does not count: a function that takes its next batch when it is repeated
    makes the same step with it.

    Args:
      steps: Numbers the steps of the client.
      max_runs: So many runs are remembered; with more, the first are steps of their own when they
        are repeated.
    """

    def __init__(self, steps: StepCounter, max_runs: int = MAX_STEPS // 2) -> None:
        self._steps = steps
        self._max_runs = max_runs
        #: The numbers of the runs, by what is run; those that are not over are also in `_open`.
        self._numbers: dict[Hashable, list[int]] = {}
        self._open: OrderedDict[int, None] = OrderedDict()
        #: How often each was run in this attempt.
        self._begun: Counter[Hashable] = Counter()
        #: Runs that are no longer remembered.
        self.forgotten = 0

    def again(self) -> None:
        """The function begins, from its first line."""
        self._begun.clear()

    def attempt(self, what: Hashable) -> StepAttempt:
        """The function runs something."""
        place = self._begun[what]
        self._begun[what] += 1
        numbers = self._numbers.setdefault(what, [])
        if place == len(numbers):
            numbers.append(self._begin())
        elif numbers[place] not in self._open:
            numbers[place] = self._begin()
        return self._steps.attempt(numbers[place])

    def _begin(self) -> int:
        step = self._steps.begin()
        self._open[step] = None
        if len(self._open) > self._max_runs:
            self._steps.over(self._open.popitem(last=False)[0])
            self.forgotten += 1
        return step

    def over(self) -> None:
        """The function has ended, well or not: it is not tried again."""
        for step in self._open:
            self._steps.over(step)
        self._open.clear()
