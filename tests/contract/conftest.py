"""Real servers of ZooKeeper and etcd, started once, on ports that nobody has."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

SECONDS = 60.0
#: Debian's package: its manifest names all other classes that the server needs.
ZOOKEEPER_CLASSES = "/usr/share/java/zookeeper.jar"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        return holder.getsockname()[1]


class RealServer:
    """A server in a process of its own, that can be killed, stopped and started again."""

    def __init__(self, command: list[str], port: int, log: Path) -> None:
        self._command = command
        self._log = log
        self.address = f"127.0.0.1:{port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, cwd=self._log.parent
            )
        deadline = time.monotonic() + SECONDS
        host, port = self.address.split(":")
        while True:
            try:
                socket.create_connection((host, int(port)), 1.0).close()
                return
            except OSError:
                assert self._process.poll() is None, self._log.read_text()
                assert time.monotonic() < deadline, self._log.read_text()
                time.sleep(0.05)

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def installed(program: str, package: str) -> str:
    """The path of a program that a package of the system has."""
    path = shutil.which(program)
    if path is None:
        pytest.fail(f"This test needs {program}: sudo apt-get install -y {package}")
    return path


def zookeeper_server(folder: Path) -> RealServer:
    java = installed("java", "zookeeper")
    port = free_port()
    configuration = folder / "zoo.cfg"
    configuration.write_text(
        f"tickTime=500\ndataDir={folder}/data\nclientPort={port}\n"
        "clientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
    )
    command = [
        *(java, "-Xmx64m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
        *("-cp", ZOOKEEPER_CLASSES),
        *("org.apache.zookeeper.server.ZooKeeperServerMain", str(configuration)),
    ]
    return RealServer(command, port, folder / "zookeeper.log")


def etcd_server(folder: Path) -> RealServer:
    port, peers = free_port(), free_port()
    command = [
        installed("etcd", "etcd-server"),
        *("--data-dir", f"{folder}/data"),
        *("--listen-client-urls", f"http://127.0.0.1:{port}"),
        *("--advertise-client-urls", f"http://127.0.0.1:{port}"),
        *("--listen-peer-urls", f"http://127.0.0.1:{peers}"),
        *("--initial-advertise-peer-urls", f"http://127.0.0.1:{peers}"),
        *("--initial-cluster", f"default=http://127.0.0.1:{peers}"),
    ]
    return RealServer(command, port, folder / "etcd.log")


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    server = zookeeper_server(tmp_path_factory.mktemp("zookeeper"))
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    server = etcd_server(tmp_path_factory.mktemp("etcd"))
    try:
        server.start()
        yield server
    finally:
        server.kill()
