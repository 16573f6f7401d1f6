"""Many workers that take steps from many parameter servers: a simulation of discrete events.

Pure and deterministic: its random numbers have a seed. A worker reads the variables of every ps,
computes, sends every ps its gradients and waits until all have applied them. What is scarce has a
queue, served in the order of arrival: the CPU of each ps, and each direction of each machine's
link. A transfer holds the sender's link out and the receiver's link in for as long as its bytes
take. Variables are spread evenly over the ps. Asynchronous workers begin their next step at once;
synchronous ones when all
have been heard.

Transfers and updates of asynchronous workers vary (exponentially, all ps alike): packets of several
workers mix, and nobody keeps in step with the others for long. Without that the queues would fall
into an order in which reading and writing overlap perfectly, which real jobs do not reach. So the
queues are those of a closed network of the textbooks, with its throughput. Workers of a synchronous
round transfer at the same time, share the links evenly, and so are all ready when the last is.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import random
from collections.abc import Callable, Sequence

from millrace.observe.planner.cost import StepCost

#: How far apart workers begin, as a share of a step: as real ones do.
_SPREAD = 0.37
#: Bytes on the wire per byte that is sent: headers of Ethernet, IP and TCP.
_WIRE = 1514 / 1448


@dataclasses.dataclass(frozen=True)
class Setting:
    """What is tried.

    Attributes:
      workers, ps: How many.
      link: Bits per second of each machine's link, in each direction.
      rtt: Seconds of a round trip.
      synchronous: Whether a step is a round of all workers.
      cores: Of a ps' machine.
    """

    workers: int
    ps: int
    link: float
    rtt: float = 0.0
    synchronous: bool = False
    cores: int = 1


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of it.

    Attributes:
      setting: What was tried.
      steps_per_second: Of all workers together; synchronous: rounds.
      busy: The share of the time in which each kind of thing was busy, the busiest of its kind.
      limit: What holds the job back, in words.
    """

    setting: Setting
    steps_per_second: float
    busy: dict[str, float]
    limit: str


class _Queue:
    """Something that does one thing at a time."""

    def __init__(self, count: int = 1) -> None:
        self.places = count
        self._free = [0.0] * count
        self.busy = 0.0

    def next_free(self) -> float:
        return self._free[0]

    def serve(self, start: float, seconds: float) -> float:
        """Takes the next free place from `start` on; when it is over."""
        begin = max(start, heapq.heappop(self._free))
        heapq.heappush(self._free, begin + seconds)
        self.busy += seconds
        return begin + seconds


class _Cluster:
    """The clock, and all queues."""

    def __init__(self, cost: StepCost, setting: Setting) -> None:
        self.cost, self.setting = cost, setting
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = itertools.count()
        self.cpus = [_Queue(setting.cores) for _ in range(setting.ps)]
        self.ps_out, self.ps_in = _queues(setting.ps), _queues(setting.ps)
        self.worker_out, self.worker_in = _queues(setting.workers), _queues(setting.workers)
        self.steps = 0
        self._arrived = 0
        self._random = random.Random(1)
        #: How much longer than usual the transfers of a worker's step take now.
        self._factors = [1.0] * setting.workers

    def at(self, time: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (time, next(self._serial), action))

    def run(self, steps: int) -> None:
        """Until so many steps are done."""
        while self.steps < steps:
            self.now, _, action = heapq.heappop(self._events)
            action()

    # -- A step ----------------------------------------------------------------------------

    def begin(self, worker: int) -> None:
        """Reads from every ps; each answers when its CPU has had its share."""
        self._left(worker, self._computed, self._read)

    def _left(
        self, worker: int, then: Callable[[int], None], each: Callable[[int, int], float]
    ) -> None:
        """Does something with every ps, and goes on when the last is over."""
        if not self.setting.synchronous:
            self._factors[worker] = self._random.expovariate(1.0)
        last = max((each(worker, ps) for ps in range(self.setting.ps)), default=self.now)
        self.at(last, lambda: then(worker))

    def _read(self, worker: int, ps: int) -> float:
        size = self._factors[worker] * self.cost.down / self.setting.ps
        asked = self.now + self.setting.rtt / 2
        return self._moved(self.ps_out[ps], self.worker_in[worker], size, asked)

    def _computed(self, worker: int) -> None:
        self.at(
            self.now + self.cost.worker,
            lambda: self._left(worker, self._applied, self._write),
        )

    def _write(self, worker: int, ps: int) -> float:
        size = self._factors[worker] * self.cost.up / self.setting.ps
        there = self._moved(self.worker_out[worker], self.ps_in[ps], size, self.now)
        done = self.cpus[ps].serve(there, self._factors[worker] * self.cost.ps / self.setting.ps)
        return done + self.setting.rtt / 2

    def _moved(self, sender: _Queue, receiver: _Queue, size: float, start: float) -> float:
        """When bytes have left one machine and come to another."""
        seconds = 8 * size * _WIRE / self.setting.link
        if self.setting.synchronous:
            sender.busy += seconds
            receiver.busy += seconds
            return (
                start + seconds * max(self.setting.workers, self.setting.ps) + self.setting.rtt / 2
            )
        begin = max(start, sender.next_free(), receiver.next_free())
        sender.serve(begin, seconds)
        return receiver.serve(begin, seconds) + self.setting.rtt / 2

    def _applied(self, worker: int) -> None:
        if not self.setting.synchronous:
            self.steps += 1
            self.begin(worker)
            return
        self._arrived += 1
        if self._arrived == self.setting.workers:
            self._arrived = 0
            self.steps += 1
            for each in range(self.setting.workers):
                self.begin(each)


def _queues(count: int) -> list[_Queue]:
    return [_Queue() for _ in range(count)]


def simulate(cost: StepCost, setting: Setting, steps: int = 8000) -> Outcome:
    """Lets the workers take about so many steps together, after a quarter as many to warm up.

    Raises:
      ValueError: A setting without a worker or without a ps.
    """
    if setting.workers < 1 or setting.ps < 1:
        raise ValueError(f"{setting.workers} workers and {setting.ps} ps: one of each, at least")
    cluster = _Cluster(cost, setting)
    apart = 0.0 if setting.synchronous else cost.worker * _SPREAD
    for worker in range(setting.workers):
        start = apart * worker / setting.workers
        cluster.at(start, lambda worker=worker: cluster.begin(worker))  # type: ignore[misc]
    wanted = max(20, steps // setting.workers if setting.synchronous else steps)
    cluster.run(max(1, wanted // 4))
    begun, before = cluster.now, cluster.steps
    kinds: dict[str, Sequence[_Queue]] = {
        "CPU of the ps": cluster.cpus,
        "link out of the ps": cluster.ps_out,
        "link into the ps": cluster.ps_in,
        "link into a worker": cluster.worker_in,
        "link out of a worker": cluster.worker_out,
    }
    earlier = {kind: [queue.busy for queue in queues] for kind, queues in kinds.items()}
    cluster.run(before + wanted)
    seconds = max(cluster.now - begun, 1e-12)
    rate = (cluster.steps - before) / seconds
    busy = {
        kind: max(
            (queue.busy - old) / seconds / queue.places
            for queue, old in zip(queues, earlier[kind], strict=True)
        )
        for kind, queues in kinds.items()
    }
    each = rate if setting.synchronous else rate / setting.workers
    busy["worker"] = min(1.0, each * cost.worker)
    return Outcome(setting, rate, {k: min(1.0, v) for k, v in busy.items()}, _limit(busy))


def _limit(busy: dict[str, float]) -> str:
    kind = max(busy, key=lambda each: busy[each])
    if busy[kind] < 0.7:
        return "round trips"
    return "the workers themselves" if kind == "worker" else kind
