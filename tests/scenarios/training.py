"""What the tasks of a scenario run: a training, as a program of Millrace's would be split.

A worker's step reads the variables of every ps, computes, and sends each its gradient. The ps's
partition is *deferred*: it begins with the gradient, and is asked for its variables before
(`deferred`), or publishes them in shared memory (`shared`); or it begins with the step and sends
them by itself (`immediate`).

A synchronous step pushes to one ps after the other; each tells the first one, and when all have its
gradient it waits there for a token. The chief's other step takes from all of them, over and over;
each ps tells all, and when all have, applies what was taken from it and tells the first one, which
then counts the global step up and hands out tokens. With one ps, that ps repeats it by itself. What
a new session runs before its first step (`SyncReplicasHook.after_create_session`) takes time, too.

The invariants stand here as code: in `Training.ended`, `applied` and `read`, and in `Model.close`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
from task import Await, Compute, Graph, Receive, Send, Task
from world import LATENCY, World

from millrace.core import errors
from millrace.core.tensor_shape import TensorShape
from millrace.protocol.accumulator import DenseAccumulatorState, Take
from millrace.protocol.queue import Dequeue, Enqueue, FifoQueueState
from millrace.protocol.step.events import PartitionFacts
from millrace.protocol.step.instructions import PUBLISH
from millrace.protocol.step.master import MasterStep
from millrace.protocol.step.remote_partitions import RemotePartition, RemotePartitions

COMPUTE = 0.4
RETRY = 0.5
#: The chief writes a checkpoint when the global step is a multiple of this.
SAVE_STEPS = 3
VARIABLES, GRADIENT, PUSHED, TAKEN, APPLIED = 100, 200, 300, 400, 500

#: How often variables were restored, and updated since.
Version = tuple[int, int]
Work = Generator[Any, Any, list[Any]]


class Training:
    """One training on a cluster, and what must hold of it.

    Args:
      world: The world.
      ps: How many ps tasks.
      workers: How many workers.
      sync: Whether it is synchronous.
      way: How partitions begin: deferred, shared or immediate.
    """

    def __init__(
        self, world: World, ps: int, workers: int, sync: bool, way: str = "deferred"
    ) -> None:
        self.world = world
        self.workers = workers
        self.sync = sync
        self.way = way
        self.checkpoint = 0
        self.completed = {f"worker{i}": 0 for i in range(workers)}
        self._ended: set[int] = set()
        self._applied: dict[int, set[str]] = {}
        #: Steps that failed because the worker gave a ps up, and that ps.
        self._failed: set[tuple[str, int]] = set()
        #: The newest version of each incarnation's variables that anybody was told of.
        self._told: dict[int, Version] = {}
        for i in range(ps):
            name = f"ps{i}"
            world.tasks[name] = Task(world, name, functools.partial(Model, self, i))
        for i in range(workers):
            name = f"worker{i}"
            world.tasks[name] = Task(world, name, functools.partial(Trainer, self))

    def all_ps(self) -> list[Task]:
        return [task for name, task in self.world.tasks.items() if name.startswith("ps")]

    # -- What must hold --------------------------------------------------------------------------

    def ended(self, worker: Task, step: MasterStep, error: errors.OpError | None) -> None:
        """A step was answered: once, and with success only if every ps has done its part."""
        number = step.number
        self.world.check(number not in self._ended, f"step {number} has ended twice")
        self._ended.add(number)
        peers = {*step.answers, *step.waiting}
        linked = {link.other(worker).name for link in worker.links}
        if error is not None:
            self._failed.update((peer, number) for peer in peers - linked)
            return
        for peer in self._applied.get(number, set()) ^ peers if number in self._applied else ():
            self.world.check(False, f"step {number} was applied by half: {peer} has not")
        for peer, answer in step.answers.items():
            if answer.values and not self.sync:
                self.tell(self.world.tasks[peer], answer.values[0])

    def applied(self, ps: Task, step: int) -> None:
        """A gradient is applied: once, and not when its worker has given the ps up."""
        there = self._applied.setdefault(step, set())
        self.world.check(ps.name not in there, f"{ps.name} applied step {step} twice")
        self.world.check(
            (ps.name, step) not in self._failed,
            f"{ps.name} applied step {step}, whose worker had given it up",
        )
        there.add(ps.name)

    def tell(self, ps: Task, version: Version) -> None:
        """Somebody hears of a version of variables."""
        self._told[ps.incarnation] = max(version, self.floor(ps))

    def floor(self, ps: Task) -> Version:
        """The version that nobody may read an older one than."""
        return self._told.get(ps.incarnation, (0, 0))

    def read(self, ps: Task, version: Version, floor: Version) -> None:
        """Variables are read: never older than what somebody was told of before."""
        self.world.check(version >= floor, f"{ps.name}: version {version} read, {floor} was told")
        self.tell(ps, version)


class Model:
    """What one incarnation of a ps keeps, and does."""

    def __init__(self, training: Training, index: int, task: Task) -> None:
        self._training = training
        self._world = training.world
        self.index = index
        self.task = task
        self.shares_memory = training.way == "shared"
        self.is_there = False
        self.restored = 0
        #: What the global step says; the first ps has it.
        self.global_step = 0
        #: How many updates this ps has applied to its variables.
        self.version = 0
        #: The gradients of the round: who computed them, of which batch, at which step; and those
        #: of all rounds since the model was last restored.
        self.round: list[tuple[str, int, int]] = []
        self.counted: set[tuple[str, int, int]] = set()
        self.accumulator = DenseAccumulatorState(task.name, TensorShape([]), False)
        self.tokens = FifoQueueState(task.name, -1)

    def on_lost(self, peer: str) -> None:
        """Nothing but what the task does."""

    def read(self) -> Version:
        """The variables, as far as it matters how new they are."""
        return self.restored, self.version

    def train(self, worker: str) -> Callable[[Task, int], Work]:
        """The ps's partition of a worker's step."""

        def program(task: Task, step: int) -> Work:
            training, i = self._training, self.index
            if training.way == "immediate":
                yield Send(worker, VARIABLES + i, [self.read()])
            ((local_step, batch),) = yield Receive(GRADIENT + i)
            training.applied(task, step)
            if not training.sync:
                self.version += 1
                self.global_step += 1
                if i == 0 and self.global_step % SAVE_STEPS == 0:
                    training.checkpoint = self.global_step
                return [self.read()]
            before = self.accumulator.count
            settled = self.accumulator.apply(np.array(1.0), local_step, worker)
            if settled or self.accumulator.count > before:
                self.round.append((worker, batch, local_step))
            task.settle(settled, None)  # type: ignore[arg-type]
            if i:
                yield Send("ps0", PUSHED + i, [1])
                return []
            for j in range(1, len(training.all_ps())):
                yield Receive(PUSHED + j)
            token = yield Await(self.tokens, Dequeue(1))
            return [token[0][0]]

        return program

    def close_round(self, chief: str) -> Callable[[Task, int], Work]:
        """The ps's partition of the chief's other step."""

        def program(task: Task, step: int) -> Work:
            training, i = self._training, self.index
            count = len(training.all_ps())
            others = [j for j in range(count) if j != i]
            value = yield Await(self.accumulator, Take(training.workers))
            found, self.round = self.round, []
            self._world.check(value == len(found), "a gradient that was lost")
            self._world.reached(chief, "taken")
            for j in others:
                yield Send(f"ps{j}", TAKEN + 10 * i + j, [1])
            for j in others:
                yield Receive(TAKEN + 10 * j + i)
            self.accumulator.will_apply()
            self.close(found)
            self._world.reached(chief, "applied")
            if i:
                yield Send("ps0", APPLIED + i, [1])
                return []
            for j in others:
                yield Receive(APPLIED + j)
            self._commit()
            return []

        return program

    def close(self, found: list[tuple[str, int, int]]) -> None:
        """The gradients of a round are applied: enough of them, and each once."""
        self.version += 1
        world = self._world
        world.check(len(found) >= self._training.workers, f"a round of {len(found)}: {found}")
        for gradient in found:
            world.check(gradient not in self.counted, f"a gradient counted twice: {gradient}")
            self.counted.add(gradient)

    def _commit(self) -> None:
        """All ps have applied the round."""
        training = self._training
        self.global_step += 1
        versions = [ps.program.version for ps in training.all_ps() if ps.is_alive]
        self._world.check(
            all(version == self.global_step for version in versions),
            f"step {self.global_step} is not what every ps has applied: {versions}",
        )
        self._world.say(f"{self.task.name} is at step {self.global_step}")
        if self.global_step % SAVE_STEPS == 0:
            training.checkpoint = self.global_step
        self.put_tokens(training.workers)

    def restore(self, global_step: int) -> None:
        """The chief puts the model back to a checkpoint."""
        self.global_step = self.version = global_step
        self.restored += 1
        self.task.perform([PUBLISH])
        self.is_there = True

    # -- What `SyncReplicasHook` runs in a new session -------------------------------------------

    def begin_round(self, step: int) -> None:
        self.accumulator.begin_round(step)
        self.round.clear()
        # Steps have the same numbers again.
        self.counted = {gradient for gradient in self.counted if gradient[2] < step}

    def drop_tokens(self) -> None:
        if len(self.tokens):
            self.tokens.submit(Dequeue(len(self.tokens)))

    def put_tokens(self, count: int) -> None:
        settled = self.tokens.submit(Enqueue([(self.global_step,)] * count))
        self.task.settle(settled, None)  # type: ignore[arg-type]


class Trainer:
    """The client of one incarnation of a worker: runs steps, and makes a new session after a fault.

    The chief also makes the model ready, and closes rounds.
    """

    shares_memory = False

    def __init__(self, training: Training, task: Task) -> None:
        self._training = training
        self._world = training.world
        self.task = task
        self.name = task.name
        self.is_chief = task.name == "worker0"
        self.session = ""
        self.local_step = 0
        #: What it computes: the same again when a step has failed.
        self.batch = next(training.world.numbers)
        self._incarnations: dict[str, int] = {}
        training.world.after(0.0, self.begin)

    def begin(self) -> None:
        """Makes a session, as soon as every ps can be reached and has a model."""
        if not self.task.is_alive or self.session:
            return
        if not self.task.is_running or not self._open():
            self._world.after(RETRY, self.begin)
            return
        if self._training.sync:
            self._prepare(self.session, self._chief_begins() if self.is_chief else self._returns())
        else:
            self._train()

    def _open(self) -> bool:
        training, everywhere = self._training, self._training.all_ps()
        task = self.task
        if not all(ps.is_running and not self._world.is_cut(task, ps) for ps in everywhere):
            return False
        first = everywhere[0].program
        incarnations = {ps.name: ps.incarnation for ps in everywhere}
        is_whole = all(
            not training.sync or ps.program.accumulator.applied_step <= first.global_step
            for ps in everywhere
        )
        has_model = all(ps.program.is_there for ps in everywhere)
        if self.is_chief and not (incarnations == self._incarnations and has_model and is_whole):
            for ps in everywhere:
                ps.program.restore(training.checkpoint)
            self._world.say(f"{self.name} restores step {training.checkpoint}")
            self._incarnations = incarnations
        if not all(ps.program.is_there for ps in everywhere):
            return False
        self.session = f"{self.name}/{next(self._world.numbers)}"
        for ps in everywhere:
            task.connect(ps)
            for other in everywhere:
                if other is not ps and training.sync:
                    ps.connect(other)
        self._register(everywhere)
        return True

    def _register(self, everywhere: list[Task]) -> None:
        """Registers the partitions of both steps with every ps."""
        training = self._training
        deferred = training.way != "immediate"
        train, close = [], []
        for i, ps in enumerate(everywhere):
            model: Model = ps.program
            others = frozenset(o.name for o in everywhere if o is not ps and training.sync)
            ps.sessions[self.session] = self.name
            awaits = GRADIENT + i if deferred and not training.sync else None
            number = next(self._world.numbers)
            ps.graphs[number] = Graph(
                PartitionFacts(self.session, others, awaits),
                model.train(self.name),
                {VARIABLES + i: model.read},
            )
            train.append(
                RemotePartition(
                    ps.name,
                    ps.name,
                    number,
                    results=[0],
                    first_key=GRADIENT + i if deferred else None,
                    read_keys=[VARIABLES + i] if deferred else [],
                )
            )
            number = next(self._world.numbers)
            ps.graphs[number] = Graph(
                PartitionFacts(self.session, others), model.close_round(self.name)
            )
            close.append(RemotePartition(ps.name, ps.name, number))
        self._partitions, self._closing = RemotePartitions(train), RemotePartitions(close)

    def _prepare(self, session: str, calls: list[Callable[[], None]]) -> None:
        """Runs what comes before the first step; begins again if a ps is not there."""
        if not self.task.is_alive or self.session != session:
            return
        if not self.task.is_running:
            self._world.after(0.05, lambda: self._prepare(session, calls))
        elif not all(
            ps.is_running and not self._world.is_cut(self.task, ps) and session in ps.sessions
            for ps in self._training.all_ps()
        ):
            self._fail("a ps is not there")
        elif calls:
            calls[0]()
            self._world.after(LATENCY, lambda: self._prepare(session, calls[1:]))
        else:
            self._train()

    def _chief_begins(self) -> list[Callable[[], None]]:
        models = [ps.program for ps in self._training.all_ps()]
        first = models[0]
        begins = [lambda m=m: m.begin_round(first.global_step) for m in models]
        return [*begins, first.drop_tokens, lambda: first.put_tokens(self._training.workers)]

    def _returns(self) -> list[Callable[[], None]]:
        models = [ps.program for ps in self._training.all_ps()]
        repeats: list[bool] = []
        announce = [
            lambda m=m: repeats.append(m.accumulator.begins_again(self.name)) for m in models
        ]
        return [*announce, lambda: models[0].put_tokens(int(any(repeats)))]

    def _train(self) -> None:
        self._world.say(f"{self.name} has a session")
        self.local_step = self._training.all_ps()[0].program.global_step
        self._run()
        if self.is_chief and self._training.sync and self.session:
            self._close_rounds()

    # -- Steps -----------------------------------------------------------------------------------

    def _run(self) -> None:
        self._world.reached(self.name, "run")
        # Its own partition may begin later, if the task is busy.
        begun = [self._training.floor(ps) for ps in self._training.all_ps()]
        home = functools.partial(self._home, begun)
        self.task.begin_step(self._partitions, home, self._over)

    def _home(self, begun: list[Version], task: Task, step: int) -> Work:
        """The worker's own partition."""
        training, everywhere = self._training, self._training.all_ps()
        for i, ps in enumerate(everywhere):
            # Variables that a ps sends by itself are those at the beginning of the step.
            floor = begun[i] if training.way == "immediate" else training.floor(ps)
            (version,) = yield Receive(VARIABLES + i)
            training.read(ps, version, floor)
        self._world.reached(self.name, "variables")
        yield Compute(COMPUTE)
        self._world.reached(self.name, "gradient")
        gradient = (self.local_step, self.batch)
        order = list(range(len(everywhere)))
        if training.sync:
            self._world.random.shuffle(order)
        for i in order:
            yield Send(f"ps{i}", GRADIENT + i, [gradient])
            if training.sync:
                self._world.reached(self.name, "push")
                yield Compute(2 * LATENCY)
        return []

    def _over(self, step: MasterStep, error: errors.OpError | None) -> None:
        training = self._training
        training.ended(self.task, step, error)
        if error is not None and (training.sync or not isinstance(error, errors.CancelledError)):
            self._fail(error.message)  # A synchronous round is not to go on by half.
            return
        if error is None:
            training.completed[self.name] += 1
            self.batch = next(self._world.numbers)
            if training.sync:
                self.local_step = step.answers["ps0"].values[0]
            self._world.reached(self.name, "done")
        session = self.session
        self._world.after(0.0, lambda: self._run() if self._may_run(session) else None)

    def _may_run(self, session: str) -> bool:
        return self.task.is_alive and bool(session) and self.session == session

    def _close_rounds(self) -> None:
        one = self._closing.can_repeat
        home = None if one else (lambda task, step: iter_nothing())
        self.task.begin_step(self._closing, home, self._round_over)

    def _round_over(self, step: MasterStep, error: errors.OpError | None) -> None:
        self._training.ended(self.task, step, error)
        if error is not None:
            self._fail(error.message)
            return
        session = self.session
        again = self._close_rounds
        self._world.after(0.0, lambda: again() if self._may_run(session) else None)

    def on_lost(self, peer: str) -> None:
        if self.session:
            self._fail(f"{peer} is gone.")

    def _fail(self, why: str) -> None:
        """A step has failed: its session is given up, and a new one is made."""
        if not self.session:
            return
        self._world.say(f"{self.name}: a step fails, {why.splitlines()[-1]}")
        session, self.session = self.session, ""
        self.task.cancel_steps()
        for ps in self._training.all_ps():
            if ps.is_running and not self._world.is_cut(self.task, ps):
                ps.close_session(session)
        self._world.after(LATENCY, self.begin)


def iter_nothing() -> Work:
    """A home partition with nothing to do."""
    yield Compute(0.0)
    return []
