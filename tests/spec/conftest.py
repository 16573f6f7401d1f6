"""What the tests of the seeds share: a graph per test, and clusters on this machine.

Each test cites the sentence of the seeds (`shared/seeds/`, by number) that it holds to. Addresses
are free ports of this machine; everything else is the seeds'.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

import millrace as tf
from millrace.platform.ports import HeldPorts


class LocalCluster:
    """A server for each task of a cluster, all in this process."""

    def __init__(self, spec: tf.train.ClusterSpec, servers: dict[tuple[str, int], tf.train.Server]):
        self.spec = spec
        self.servers = servers

    def target(self, job: str, task: int = 0) -> str:
        return self.servers[job, task].target

    def variables_on(self, job: str, task: int = 0) -> int:
        """How many variables a task holds."""
        return len(self.servers[job, task].worker.status()["variables"])


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def addresses() -> Iterator[Callable[[int], list[str]]]:
    """Gives addresses of this machine that nobody else is given while the test runs."""
    with contextlib.ExitStack() as held:
        yield lambda count: held.enter_context(HeldPorts(count)).addresses


@pytest.fixture
def servers() -> Iterator[list[tf.train.Server]]:
    """Servers that are stopped after the test."""
    made: list[tf.train.Server] = []
    yield made
    for server in made:
        server.stop()


@pytest.fixture
def start(
    servers: list[tf.train.Server], addresses: Callable[[int], list[str]]
) -> Callable[..., LocalCluster]:
    """Starts a cluster with so many tasks in each job: ``start(ps=2, worker=2)``."""

    def start_cluster(**tasks: int) -> LocalCluster:
        spec = tf.train.ClusterSpec({job: addresses(count) for job, count in tasks.items()})
        made = {
            (job, task): tf.train.Server(spec, job_name=job, task_index=task)
            for job, count in tasks.items()
            for task in range(count)
        }
        servers.extend(made.values())
        return LocalCluster(spec, made)

    return start_cluster
