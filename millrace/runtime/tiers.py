"""Which tier runs a stage, and when it is compiled.

Tier 0 runs a stage's nodes on NumPy: at once, at any shape. Tier 1 is an XLA program, for one set
of shapes. A step never waits for the compiler: a program is compiled in the background once it
seems to pay, and taken when it is ready and measured to be quicker.

When does it pay? Nobody knows how often a shape will come back; but who waits until tier 0 has
cost as much as compiling will, pays at most twice what the best choice would have cost. What
compiling costs, and which share of tier 0's time programs save, is learned from the programs of
this process (`Experience`). What tier 0 has cost is its best run times the number of runs: the
first runs look at nodes one by one and write a tape, which no later run does. The first program of
a stage that pays within a few hundred runs is made three times as early, for most stages always
meet the same shapes; each further one must have cost as much more as there are programs already. A
stage of which parts have programs of their own (`split_stage`) gets one only when its shapes have
long stayed the same. The parts run now and then, ever more seldom, to see what they cost: each of
these runs stands for those since the one before. Whether the parts with their programs are quicker
than the whole on tier 0 is measured by turns (`Turns`).

`MILLRACE_COMPILE=now` compiles in front of the step that wants a program, for measurements and
tests that count programs; `never` stays on tier 0.
"""

from __future__ import annotations

import contextlib
import enum
import os
import queue
import statistics
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from millrace.platform import logging
from millrace.runtime import trace_time_results
from millrace.runtime.compile_ahead import Jitted

#: For so many sets of shapes a stage has programs; those used last stay.
MAX_PROGRAMS = 24
#: Of so many sets of shapes it is known how long they took.
_MAX_KNOWN = 512
#: What compiling is expected to take before a stage was compiled: in all, and for each node.
_SECONDS, _SECONDS_PER_NODE = 0.2, 0.01
#: A program that pays within so many runs is made early.
_SOON = 300
#: How much what was seen last counts for what is expected next.
_LATEST_SHARE = 0.5
#: It is always thought possible that so much of tier 0's time is saved.
_LEAST_SAVED = 0.1
#: A stage that has met no more sets of shapes may always meet the same.
_FEW_SHAPES = 2
#: So many runs are timed before it is known what one costs.
_FEWEST_NOTED = 2
#: What share of that tier 0 must have cost before the first program of a stage is made.
_FIRST_SHARE = 0.3
#: After so many runs of a program it is known how long it takes; the first is not counted. One
#: that takes many times as long as tier 0 is known earlier.
_MEASURED_RUNS, _FEW_RUNS, _MUCH_LONGER = 10, 3, 3.0
#: After so many runs a stage goes through its parts for the first time while none of them has a
#: program; after twice as many once more, and so on.
FIRST_SAMPLE = 16
#: Of so many runs of each of two ways it is known which is quicker.
_TURNS = 9
#: A compile that takes longer does not hold up others; so many such ones run at a time.
_LONG_COMPILE_SECONDS, _MAX_SLOW = 5.0, 3
#: A program stays if it takes at most so many times what tier 0 takes.
_TOLERANCE = 1.1


class Mode(enum.Enum):
    """When programs are compiled."""

    BACKGROUND = "background"
    NOW = "now"
    NEVER = "never"


def mode() -> Mode:
    """What the environment says.

    Raises:
      ValueError: It says something else.
    """
    said = os.environ.get("MILLRACE_COMPILE", Mode.BACKGROUND.value)
    try:
        return Mode(said)
    except ValueError:
        known = ", ".join(m.value for m in Mode)
        raise ValueError(f"MILLRACE_COMPILE={said!r} is not one of {known}") from None


class Counts:
    """What a stage, or the whole process, has done.

    Attributes:
      host_runs: Runs on tier 0.
      program_runs: Runs of XLA programs.
      compiles: Programs that were compiled.
      waits: Runs that waited for the compiler.
      seconds: What compiling took, in all.
    """

    __slots__ = ("compiles", "host_runs", "program_runs", "seconds", "waits")

    def __init__(self) -> None:
        self.host_runs = self.program_runs = self.compiles = self.waits = 0
        self.seconds = 0.0


#: Of this process.
COUNTS = Counts()
#: Stages that keep meeting new shapes, by their first node, and how many; for who looks at the
#: process, and bounded.
CHANGING: dict[str, int] = {}
_FEW_CHANGES, _MAX_CHANGING = 8, 32


class Experience:
    """What compiling has cost and brought in this process.

    Attributes:
      seconds_per_node: What it takes to compile, for each node.
      saved: Which share of tier 0's time programs have saved.
    """

    def __init__(self) -> None:
        self.seconds_per_node = _SECONDS_PER_NODE
        self.saved = 1.0

    def note_compile(self, nodes: int, seconds: float) -> None:
        """Notes how long a program of so many nodes took to compile."""
        found = max(0.0, seconds - _SECONDS) / max(1, nodes)
        self.seconds_per_node += _LATEST_SHARE * (found - self.seconds_per_node)

    def note_saving(self, share: float) -> None:
        """Notes which share of tier 0's time a program saves."""
        self.saved += _LATEST_SHARE * (max(_LEAST_SAVED, share) - self.saved)

    def expected_seconds(self, nodes: int) -> float:
        """What compiling a stage is expected to take."""
        return _SECONDS + self.seconds_per_node * nodes


#: Of this process.
EXPERIENCE = Experience()


class Turns:
    """Which of two ways to run a stage is quicker, found out by running both by turns.

    Attributes:
      better: 0 or 1, once it is known; until then None.
    """

    def __init__(self) -> None:
        self._seconds: tuple[list[float], list[float]] = [], []
        self.better: int | None = None

    @property
    def next(self) -> int:
        """Which way to take now."""
        first, second = self._seconds
        return int(len(second) < len(first))

    def note(self, way: int, seconds: float) -> None:
        """Notes how long a way took; the first time of each is not counted."""
        self._seconds[way].append(seconds)
        if min(map(len, self._seconds)) > _TURNS:
            medians = [statistics.median(seconds[1:]) for seconds in self._seconds]
            self.better = medians.index(min(medians))


class Shape:
    """One set of shapes that a stage has met.

    Attributes:
      program: What runs it on tier 1; None if there is nothing.
      known: Results that are known without any run.
      reason: Why it runs on tier 0, in a few words.
      is_queued: Whether it was given to the compiler, or never will be.
    """

    __slots__ = (
        "best",
        "is_queued",
        "known",
        "least_cost",
        "program",
        "program_best",
        "program_runs",
        "reason",
        "runs",
        "runs_noted",
    )

    def __init__(self) -> None:
        self.program: Any = None
        self.known: trace_time_results.Results | None = None
        self.reason = "these shapes are new"
        self.is_queued = False
        self.runs = self.runs_noted = self.program_runs = 0
        self.best = self.least_cost = self.program_best = float("inf")

    @property
    def cost(self) -> float:
        """What tier 0 has cost, in seconds, without what only first runs do."""
        return self.least_cost * self.runs if self.runs else 0.0

    def note_host_run(
        self, seconds: float, cpu_seconds: float | None = None, stands_for: int = 1
    ) -> None:
        """Notes how long tier 0 took.

        Args:
          seconds: From its start to its end.
          cpu_seconds: What it has cost: on a busy machine much less.
          stands_for: For how many runs this one stands.
        """
        self.runs += stands_for
        self.runs_noted += 1
        self.least_cost = min(self.least_cost, seconds if cpu_seconds is None else cpu_seconds)
        self.best = min(self.best, seconds)
        if self.runs_noted == 2 and not self.is_queued:
            self.reason = "compiling does not pay yet"

    def note_program_run(self, seconds: float) -> None:
        """Notes how long the program took; gives it up if tier 0 is quicker."""
        self.program_runs += 1
        if self.program_runs == 1:
            return
        self.program_best = min(self.program_best, seconds)
        limit = self.best * _TOLERANCE
        if self.program_runs <= _MEASURED_RUNS:
            limit *= _MUCH_LONGER
        if self.program_runs > _FEW_RUNS and (self.is_measured or self.program_best > limit):
            EXPERIENCE.note_saving(1.0 - self.program_best / self.best)
        if self.program_runs > _FEW_RUNS and self.program_best > limit:
            self.program = None
            self.reason = (
                f"the program takes {self.program_best * 1e6:.0f} us, "
                f"tier 0 {self.best * 1e6:.0f} us"
            )

    @property
    def is_measured(self) -> bool:
        """Whether it is known how long the program takes."""
        return self.program_runs > _MEASURED_RUNS or not self.runs


class Programs:
    """The sets of shapes that a stage has met, and its programs."""

    def __init__(self, node_count: int, name: str = "", is_part: bool = False) -> None:
        self.name = name
        self._is_part = is_part
        self.counts = Counts()
        self._shapes: OrderedDict[Any, Shape] = OrderedDict()
        self._lock = threading.Lock()
        self._node_count = node_count
        #: For how many runs each one stands that is noted.
        self.runs_per_note = 1
        #: What compiling took the last time.
        self._took: float | None = None

    def shape(self, signature: Hashable) -> Shape:
        """What is known of a set of shapes."""
        with self._lock:
            found = self._shapes.pop(signature, None)
            if found is None:
                found = Shape()
                if len(self._shapes) >= _MAX_KNOWN:
                    self._shapes.popitem(last=False)
                self._note_change()
            self._shapes[signature] = found
            return found

    def _note_change(self) -> None:
        count = len(self._shapes) + 1
        if count > _FEW_CHANGES and (self.name in CHANGING or len(CHANGING) < _MAX_CHANGING):
            CHANGING[self.name] = max(count, CHANGING.get(self.name, 0) + 1)

    def wants_program(self, shape: Shape) -> bool:
        """Whether these shapes should be compiled now; true once."""
        if shape.is_queued or shape.runs_noted < _FEWEST_NOTED:
            return False
        expected = self._took
        if expected is None:
            expected = EXPERIENCE.expected_seconds(self._node_count)
        share = self.counts.compiles + 1.0
        is_first = len(self._shapes) <= _FEW_SHAPES and not self.counts.compiles
        if is_first and not self._is_part and shape.least_cost * _SOON >= expected:
            share = _FIRST_SHARE
        if shape.cost * EXPERIENCE.saved < share * expected:
            return False
        with self._lock:
            if shape.is_queued:
                return False
            shape.is_queued = True
            shape.reason = "the program is being compiled"
            return True

    def add(self, shape: Shape, program: Jitted, seconds: float) -> None:
        """Takes a compiled program in; the one used longest ago goes if there are many."""
        self._took = seconds
        EXPERIENCE.note_compile(self._node_count, seconds)
        for counts in (self.counts, COUNTS):
            counts.compiles += 1
            counts.seconds += seconds
        shape.program, shape.reason, shape.is_queued = program, "", True
        with self._lock:
            with_program = [s for s in self._shapes.values() if s.program is not None]
        for old in with_program[: max(0, len(with_program) - MAX_PROGRAMS)]:
            if old is not shape:
                old.program, old.is_queued = None, False
                old.runs = old.runs_noted = 0
                old.reason = "other shapes were used more lately"

    @property
    def is_full(self) -> bool:
        """Whether there are as many programs as there may be."""
        with self._lock:
            return sum(s.program is not None for s in self._shapes.values()) >= MAX_PROGRAMS


class BackgroundCompiler:
    """Compiles what it is given, one after the other, in a thread that ends when none is left.

    What is compiled for long does not hold up the rest: another thread goes on with it.

    Args:
      long_seconds: Seconds after which a job is one that lasts.
    """

    def __init__(self, long_seconds: float = _LONG_COMPILE_SECONDS) -> None:
        self._long_seconds = long_seconds
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._threads: set[threading.Thread] = set()
        #: Those whose job lasts.
        self._slow: set[threading.Thread] = set()

    def submit(self, job: Callable[[], None]) -> None:
        """Runs `job` in the background."""
        with self._lock:
            self._jobs.put(job)
            self._start()

    def _start(self) -> None:
        """Starts a thread, if there are jobs that none takes soon; `_lock` is held."""
        if self._threads == self._slow and len(self._slow) < _MAX_SLOW and not self._jobs.empty():
            thread = threading.Thread(target=self._work, name="millrace-compiler")
            self._threads.add(thread)
            thread.start()

    def wait(self, timeout: float) -> bool:
        """Waits until all is compiled; false if that takes longer than `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while self._threads and time.monotonic() < deadline:
            for thread in list(self._threads):
                thread.join(max(0.0, deadline - time.monotonic()))
        return not self._threads

    def _work(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            # Steps come first: this is the priority of this thread alone, on Linux.
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        me = threading.current_thread()
        while True:
            with self._lock:
                self._slow.discard(me)
                # A program that ends waits for this thread, but not for all that is left.
                is_over = self._jobs.empty() or not threading.main_thread().is_alive()
                if is_over or len(self._threads - self._slow) > 1:
                    self._threads.discard(me)
                    return
                job = self._jobs.get()
            lasts = threading.Timer(self._long_seconds, self._step_aside, (me,))
            lasts.daemon = True
            lasts.start()
            try:
                job()
            except Exception as error:
                logging.warning("A program was not compiled, tier 0 goes on: %s", error)
            finally:
                lasts.cancel()

    def _step_aside(self, thread: threading.Thread) -> None:
        with self._lock:
            if thread in self._threads:
                self._slow.add(thread)
                self._start()


#: Of this process.
COMPILER = BackgroundCompiler()
