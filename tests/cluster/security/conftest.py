"""A job with authentication, its keys, and the bystander.

In each test of this folder somebody is refused, and a step of somebody else is trained before and
after.
"""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import millrace as tf
from millrace.rpc.certificates import LOOPBACK_HOSTS, Authority
from millrace.rpc.security import TLS_CA, TLS_CERTIFICATE, TLS_KEY, TOKEN, Security

GOOD_TOKEN = "a-token-that-nobody-guesses"
SECONDS = 60.0


@pytest.fixture(scope="session")
def authority() -> Authority:
    """Who signs the certificates of the jobs."""
    return Authority()


def keys(authority: Authority, **options: Any) -> Security:
    """What a holder of a certificate has."""
    certificate, key = authority.issue("somebody", LOOPBACK_HOSTS, **options)
    return Security(authority.certificate, certificate, key)


@pytest.fixture
def use(monkeypatch: Any, tmp_path: Path) -> Callable[[Security], None]:
    """Lets servers and clients of this process take these keys from the environment."""

    def set_variables(security: Security) -> None:
        for variable in (TLS_CA, TLS_CERTIFICATE, TLS_KEY, TOKEN):
            monkeypatch.delenv(variable, raising=False)
        parts = {
            TLS_CA: security.authority,
            TLS_CERTIFICATE: security.certificate,
            TLS_KEY: security.key,
        }
        for variable, content in parts.items():
            if content:
                path = tmp_path / variable
                path.write_bytes(content)
                monkeypatch.setenv(variable, str(path))
        if security.token:
            monkeypatch.setenv(TOKEN, security.token)

    return set_variables


class Trainer:
    """A client in the process of worker 0 that trains a weight on the ps: the bystander."""

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster
        with tf.Graph().as_default():
            with tf.device("/job:ps/task:0"):
                weight = tf.Variable(0.0, name="bystander")
            with tf.device("/job:worker/task:0"):
                gradient = tf.constant(1.0) + 0.0 * weight
            self._train = tf.assign_add(weight, gradient)
            self._session = tf.Session(cluster.target("worker", 0))
            self._session.run(weight.initializer)
        self._steps = 0

    def step(self) -> None:
        """Trains a step; nobody has disturbed the weight."""
        self._steps += 1
        assert self._session.run(self._train) == self._steps

    def close(self) -> None:
        self._session.close()


@pytest.fixture
def make_job(make_cluster: Any, use: Any) -> Iterator[Callable[..., tuple[Any, Trainer]]]:
    """Starts 1 ps and 1 worker with keys, and the bystander; who is well afterwards."""
    trainers: list[Trainer] = []

    def make(security: Security | None = None, way: str = "socket") -> tuple[Any, Trainer]:
        use(security or Security())
        cluster = make_cluster({"ps": 1, "worker": 1}, way)
        trainers.append(Trainer(cluster))
        trainers[-1].step()
        return cluster, trainers[-1]

    yield make
    for trainer in trainers:
        trainer.step()
        trainer.close()


def address(cluster: Any, job: str = "ps") -> str:
    """Where the first task of a job is, for a client elsewhere."""
    return cluster.target(job, 0, remote=True).removeprefix("grpc://")


def run_remotely(cluster: Any, fetch: Any, job: str = "ps") -> Any:
    """Runs a step as a client that is not in the server's process."""
    with tf.Session(cluster.target(job, 0, remote=True)) as session:
        return session.run(fetch)


def is_closed(connection: socket.socket) -> bool:
    """Whether the other side closes a connection; waits for that."""
    connection.settimeout(SECONDS)
    try:
        while data := connection.recv(4096):
            assert data  # an alert
    except ConnectionError:
        pass
    return True
