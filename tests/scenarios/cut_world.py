"""Workers, tasks and cuts over channels that deliver in order and at any time: what a cut meets.

Everything that can happen next is in one list, and a random number chooses. So steps, cuts and
faults meet in every order that channels and threads allow. `World.check` has the invariants.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Callable

from millrace.core import errors
from millrace.protocol.cut import events, instructions
from millrace.protocol.cut.events import StepName
from millrace.protocol.cut.master import MasterCut
from millrace.protocol.cut.task import RunningPartition, TaskCuts
from millrace.protocol.step.applied_steps import StepAttempt

#: What a step does on one task: so many changes, one after the other.
CHANGES = 2


class Run:
    """A partition of a step on a task."""

    def __init__(self, task: Task, worker: Worker, attempt: StepAttempt, fails: bool) -> None:
        self.task, self.worker, self.attempt = task, worker, attempt
        self.name: StepName = (attempt.client, attempt.step)
        self.partition: RunningPartition = task.cuts.begin(
            attempt, worker.steps[self.name], worker.name
        )
        #: Whether it ends after its first change.
        self.fails = fails
        self.is_held = False

    def advance(self) -> None:
        """Changes one more thing, or ends."""
        done = self.task.applied[self.name]
        if len(done) == CHANGES or (self.fails and done):
            self.end(len(done) == CHANGES)
            return
        if not self.task.cuts.enter(self.partition):
            self.is_held = True
            return
        done.add(len(done))

    def end(self, is_done: bool) -> None:
        task, worker = self.task, self.worker
        task.runs.remove(self)
        task.perform(task.cuts.over(self.partition, is_done))
        name = task.name
        task.world.send(
            name, worker.name, lambda: worker.answered(self.name, name, self.attempt, is_done)
        )


class Task:
    """A task with variables."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.cuts = TaskCuts(name)
        self.runs: list[Run] = []
        self.applied: dict[StepName, set[int]] = defaultdict(set)
        self.snapshots: dict[int, dict[StepName, int]] = {}
        #: Cuts whose time may run out.
        self.timers: set[int] = set()

    def perform(self, found: list[instructions.TaskCutInstruction]) -> None:
        world = self.world
        for each in found:
            if isinstance(each, instructions.TakeSnapshot):
                self.snapshots[each.number] = {n: len(done) for n, done in self.applied.items()}
            elif isinstance(each, instructions.DropSnapshot):
                del self.snapshots[each.number]
            elif isinstance(each, instructions.Resume):
                (run,) = (run for run in self.runs if run.partition is each.partition)
                assert run.is_held
                run.is_held = False
            elif isinstance(each, instructions.AwaitSteps):
                self.timers.add(each.number)
            elif isinstance(each, instructions.SendClosed):
                told = events.TaskClosed(self.name, each.steps, each.oldest)
                self._tell(each.master, each.number, told)
            elif isinstance(each, instructions.SendTaken):
                self.timers.discard(each.number)
                self._tell(each.master, each.number, events.TaskTaken(self.name, each.torn))
            else:
                assert isinstance(each, instructions.SendRefused)
                refused = events.TaskRefused(self.name, each.error)
                self._tell(each.master, each.number, refused)
        assert world

    def _tell(self, master: str, number: int, event: events.MasterCutEvent) -> None:
        self.world.send(
            self.name, master, lambda: self.world.workers[master].tell_cut(number, event)
        )


class Worker:
    """A worker that trains, and takes cuts."""

    def __init__(self, world: World, name: str, client: int) -> None:
        self.world, self.name, self.client = world, name, client
        #: The tasks of each step.
        self.steps: dict[StepName, tuple[str, ...]] = {}
        #: Steps that are not over, with the tasks that have not answered and the attempt.
        self.open: dict[StepName, set[str]] = {}
        self.attempts: dict[StepName, int] = {}
        self.is_alive = True
        self.cut: MasterCut | None = None
        self.used: list[int] = []
        self.failed = 0

    # -- Steps -------------------------------------------------------------------------------

    def begin(self) -> None:
        name = self.client, len(self.steps) + 1
        tasks = list(self.world.tasks)
        chosen = self.world.random.sample(tasks, self.world.random.randint(1, len(tasks)))
        self.steps[name] = tuple(sorted(chosen))
        self._run(name)

    def _run(self, name: StepName) -> None:
        self.attempts[name] = number = self.attempts.get(name, 0) + 1
        self.open[name] = {*self.steps[name]}
        oldest = min(step for _, step in self.open)
        attempt = StepAttempt(self.client, name[1], oldest, number)
        for task_name in self.steps[name]:
            task = self.world.tasks[task_name]
            fails = number == 1 and self.world.random.random() < self.world.failing
            self.world.send(
                self.name,
                task_name,
                lambda task=task, fails=fails: task.runs.append(Run(task, self, attempt, fails)),
            )

    def answered(self, name: StepName, task: str, attempt: StepAttempt, is_done: bool) -> None:
        if self.attempts[name] != attempt.attempt or name not in self.open:
            return
        if not is_done:
            self._run(name)
            return
        self.open[name].discard(task)
        if not self.open[name]:
            del self.open[name]

    # -- Cuts --------------------------------------------------------------------------------

    def begin_cut(self) -> None:
        self.world.cuts += 1
        self.cut = MasterCut(self.world.cuts, list(self.world.tasks))
        self.tell_cut(self.cut.number, events.CutRequested())

    def tell_cut(self, number: int, event: events.MasterCutEvent) -> None:
        cut = self.cut
        if cut is None or cut.number != number:
            return
        for each in cut.on(event):
            if isinstance(each, instructions.SendClose):
                self._send(each.task, events.CloseRequested(number, self.name))
            elif isinstance(each, instructions.SendAdmit):
                self._send(each.task, events.AdmitRequested(number, self.name, each.steps))
            elif isinstance(each, instructions.SendRelease):
                self._send(each.task, events.ReleaseRequested(number))
            elif isinstance(each, instructions.UseCut):
                self.world.check(number, each.torn)
                self.used.append(number)
                self.tell_cut(number, events.CutUsed())
                self.cut = None
            elif isinstance(each, instructions.FailCut):
                assert isinstance(each.error, errors.UnavailableError)
                self.failed += 1
                self.cut = None

    def _send(self, task: str, event: events.TaskCutEvent) -> None:
        found = self.world.tasks[task]
        self.world.send(self.name, task, lambda: found.perform(found.cuts.on(event)))


class World:
    """All that happens, one thing after the other.

    Args:
      seed: Decides what happens next.
      tasks: How many have variables.
      workers: How many train.
      failing: How often the first attempt of a step fails on a task.
    """

    def __init__(self, seed: int, tasks: int = 2, workers: int = 2, failing: float = 0.0) -> None:
        self.random = random.Random(seed)
        self.failing = failing
        self.tasks = {f"ps{i}": Task(self, f"ps{i}") for i in range(tasks)}
        self.workers = {f"w{i}": Worker(self, f"w{i}", 100 + i) for i in range(workers)}
        self.channels: dict[tuple[str, str], deque[Callable[[], None]]] = defaultdict(deque)
        self.cuts = 0
        self.messages = 0
        #: What happens when so many messages were sent.
        self.at: dict[int, Callable[[], None]] = {}

    def send(self, source: str, to: str, deliver: Callable[[], None]) -> None:
        worker = self.workers.get(source)
        if worker is not None and not worker.is_alive:
            return
        self.channels[source, to].append(deliver)
        self.messages += 1
        fault = self.at.pop(self.messages, None)
        if fault is not None:
            fault()

    def kill(self, name: str) -> None:
        """A worker dies: of what it has sent a part arrives, then each task hears of it."""
        worker = self.workers[name]
        if not worker.is_alive:
            return
        worker.is_alive = False
        for task in self.tasks.values():
            sent = self.channels[name, task.name]
            for _ in range(self.random.randint(0, len(sent))):
                sent.pop()
            sent.append(lambda task=task: self._lost(task, name))  # type: ignore[misc]

    def _lost(self, task: Task, name: str) -> None:
        for run in [run for run in task.runs if run.worker.name == name]:
            run.end(False)
        task.perform(task.cuts.on(events.MasterLost(name)))

    def step(self, wants: list[Callable[[], None]]) -> bool:
        """Lets one thing happen; False when nothing can."""
        possible = [*wants]
        for (_, to), sent in self.channels.items():
            worker = self.workers.get(to)
            if sent and worker is not None and not worker.is_alive:
                sent.clear()
            elif sent:
                possible.append(lambda sent=sent: sent.popleft()())  # type: ignore[misc]
        for task in self.tasks.values():
            possible += [run.advance for run in task.runs if not run.is_held]
        if not possible:
            return False
        self.random.choice(possible)()
        return True

    def check(self, number: int, torn: object) -> None:
        """Of every step, all or nothing is in a cut; unless its worker died in its middle."""
        assert isinstance(torn, list)
        for worker in self.workers.values():
            for name, tasks in worker.steps.items():
                found = {t: self.tasks[t].snapshots[number].get(name, 0) for t in tasks}
                whole = set(found.values()) in ({0}, {CHANGES})
                assert whole or name in torn or not worker.is_alive, (number, name, found)
                assert name not in torn or not worker.is_alive, (number, name, "is not torn")
