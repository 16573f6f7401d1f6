"""Clusters of real servers in one process, and what their tests share.

After each test every server must be idle: no step runs, no value waits for one; and when it is
stopped, none of its threads is left.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import millrace as tf
from millrace.platform.ports import HeldPorts
from millrace.server.peers import Peers


class Cluster:
    """Servers, one for each task."""

    def __init__(self, jobs: dict[str, int], protocol: str | None, config: Any = None) -> None:
        self._held = {job: HeldPorts(count) for job, count in jobs.items()}
        self.spec = {job: held.addresses for job, held in self._held.items()}
        self.protocol = protocol
        self.config = config
        self.servers: dict[tuple[str, int], Any] = {}
        for job, count in jobs.items():
            for index in range(count):
                self.start(job, index)

    def start(self, job: str, index: int) -> Any:
        server = tf.train.Server(self.spec, job, index, protocol=self.protocol, config=self.config)
        self.servers[job, index] = server
        return server

    def __getitem__(self, task: tuple[str, int]) -> Any:
        return self.servers[task]

    def target(self, job: str, index: int = 0, *, remote: bool = False) -> str:
        """The target of a task; `remote` makes the client believe that it is elsewhere."""
        target = self.servers[job, index].target
        return target.replace("localhost", "127.0.0.1") if remote else target

    def busy(self) -> list[str]:
        """What servers still do or hold."""
        found = []
        for task, server in self.servers.items():
            worker = server.worker
            if worker.partitions.steps:
                found.append(f"{task} knows of {worker.partitions.steps}")
            if worker._runs or worker._waits:
                found.append(f"{task} runs {worker._runs} and waits for {worker._waits}")
            if server._master.pending:
                found.append(f"{task} has pending {server._master.pending}")
        return found

    def stop(self) -> None:
        for server in self.servers.values():
            server.stop()
        for held in self._held.values():
            held.close()


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    """A graph of each test's own."""
    with tf.Graph().as_default() as made:
        yield made


@pytest.fixture
def free_port() -> Iterator[int]:
    """A port that nobody else is given while the test runs."""
    with HeldPorts(1) as held:
        yield held.ports[0]


class _Nobody(dict[str, Any]):
    """Makes servers of one process strangers, so that they use the network."""

    def get(self, key: str, default: Any = None) -> Any:
        return default


@pytest.fixture
def make_cluster(monkeypatch: Any, until: Any) -> Iterator[Callable[..., Cluster]]:
    """Starts clusters; stops them and looks for what is left."""
    before = {t for t in threading.enumerate() if t.name.startswith("millrace")}
    made: list[Cluster] = []

    def make(jobs: dict[str, int], way: str = "in-process", config: Any = None) -> Cluster:
        if way != "in-process":
            monkeypatch.setattr(Peers, "_of_this_process", _Nobody())
        made.append(Cluster(jobs, "grpc" if way == "grpc" else None, config))
        return made[-1]

    yield make
    for cluster in made:
        try:
            until(lambda busy=cluster.busy: not busy())
        except AssertionError:
            raise AssertionError(f"servers are not idle: {cluster.busy()}") from None
        finally:
            cluster.stop()

    def left() -> list[str]:
        return [
            t.name
            for t in threading.enumerate()
            if t.name.startswith("millrace") and t not in before
        ]

    try:
        until(lambda: not left())
    except AssertionError:
        raise AssertionError(f"threads are left: {left()}") from None


#: How messages go between the tasks.
WAYS = ("in-process", "socket", "grpc")


@pytest.fixture
def cluster(make_cluster: Any) -> Cluster:
    """1 ps and 2 workers in one process."""
    made: Cluster = make_cluster({"ps": 1, "worker": 2})
    return made


@pytest.fixture(params=WAYS)
def any_cluster(make_cluster: Any, request: Any) -> Cluster:
    """1 ps and 2 workers, over each transport."""
    made: Cluster = make_cluster({"ps": 1, "worker": 2}, request.param)
    return made


@pytest.fixture(params=["here", "remote"])
def any_target(cluster: Cluster, request: Any) -> str:
    """worker 0 of a cluster, for a client in its process and for one that is elsewhere."""
    return cluster.target("worker", 0, remote=request.param == "remote")
