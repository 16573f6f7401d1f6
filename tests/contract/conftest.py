"""Real servers of ZooKeeper and etcd, started once, on ports that nobody has."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import shutil
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from millrace.core import errors
from millrace.platform.ports import HeldPorts
from millrace.rpc.certificates import make_folder

SECONDS = 180.0
#: Debian's package: its manifest names all other classes that the server needs.
ZOOKEEPER_CLASSES = "/usr/share/java/zookeeper.jar"
#: With TLS it needs some that the manifest does not name.
ZOOKEEPER_TLS_CLASSES = ":".join(
    [
        ZOOKEEPER_CLASSES,
        *(f"/usr/share/java/netty-{part}.jar" for part in ("all", "codec", "handler")),
        "/usr/share/java/netty-transport-native-unix-common.jar",
    ]
)


def patiently(call: Callable[[], Any]) -> Any:
    """The result of a call, once the server can be reached: on busy cores a second may be short."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            return call()
        except errors.UnavailableError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


class RealServer:
    """A server in a process of its own, that can be killed, stopped and started again."""

    def __init__(self, command: list[str], held: HeldPorts, log: Path) -> None:
        self._command = command
        self._held = held
        self._log = log
        self.address = held.addresses[0]
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
        """Sends a signal; once SIGSTOP is sent, the server does not answer any more."""
        assert self._process is not None
        self._process.send_signal(number)
        stat = Path(f"/proc/{self._process.pid}/stat")
        deadline = time.monotonic() + SECONDS
        while number == signal.SIGSTOP and stat.read_text().rpartition(")")[2].split()[0] != "T":
            assert time.monotonic() < deadline, "the server is not stopped"
            time.sleep(0.001)

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


def zookeeper_server(
    folder: Path, port_name: str = "clientPort", classes: str = ZOOKEEPER_CLASSES, **options: str
) -> RealServer:
    java = installed("java", "zookeeper")
    held = HeldPorts(1, "127.0.0.1")
    configuration = folder / "zoo.cfg"
    configuration.write_text(
        f"tickTime=500\ndataDir={folder}/data\n{port_name}={held.ports[0]}\n"
        f"{port_name}Address=127.0.0.1\nadmin.enableServer=false\n"
        + "".join(f"{name}={value}\n" for name, value in options.items())
    )
    command = [
        *(java, "-Xmx64m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
        "-Dzookeeper.forceSync=no",  # nobody waits for a disk that is busy with other tests
        *("-cp", classes),
        *("org.apache.zookeeper.server.ZooKeeperServerMain", str(configuration)),
    ]
    return RealServer(command, held, folder / "zookeeper.log")


def etcd_server(folder: Path, scheme: str = "http", *options: str) -> RealServer:
    held = HeldPorts(2, "127.0.0.1")
    port, peers = held.ports
    command = [
        installed("etcd", "etcd-server"),
        *("--data-dir", f"{folder}/data"),
        *("--listen-client-urls", f"{scheme}://127.0.0.1:{port}"),
        *("--advertise-client-urls", f"{scheme}://127.0.0.1:{port}"),
        *("--listen-peer-urls", f"http://127.0.0.1:{peers}"),
        *("--initial-advertise-peer-urls", f"http://127.0.0.1:{peers}"),
        *("--initial-cluster", f"default=http://127.0.0.1:{peers}"),
        *options,
    ]
    return RealServer(command, held, folder / "etcd.log")


class Guarded:
    """Keys for a server on this machine and its clients; and those of others.

    Args:
      service: As variables of the environment name it.
      folder: Where to make them.
    """

    PASSWORD = "correct horse battery staple"

    def __init__(self, service: str, folder: Path) -> None:
        self._service = service
        self._folder = folder
        make_folder(folder / "keys", ["server", "client"], ["127.0.0.1"])
        make_folder(folder / "others", ["client"], [])
        (folder / "password").write_text(f"{self.PASSWORD}\n")
        self._pair = {"CERTIFICATE": self.key("client.pem"), "KEY": self.key("client.key")}
        self._user = {"USER": "trainer", "PASSWORD_FILE": str(folder / "password")}

    def key(self, name: str, folder: str = "keys") -> str:
        return str(self._folder / folder / name)

    def shown(self) -> dict[str, str]:
        """What this server asks for, besides TLS."""
        raise NotImplementedError

    def variables(self, **others: str | None) -> dict[str, str]:
        """The environment of a task; what is None is left out."""
        found: dict[str, str | None] = {"CA": self.key("authority.pem"), **self.shown(), **others}
        return {f"MILLRACE_{self._service}_{name}": value for name, value in found.items() if value}


class ZooKeeperWithAuthentication(Guarded):
    """A ZooKeeper with TLS, which asks clients for certificates; and nodes may have users."""

    def __init__(self, folder: Path) -> None:
        super().__init__("ZOOKEEPER", folder)
        both = folder / "server-key-and-certificate.pem"
        both.write_text(
            Path(self.key("server.key")).read_text() + Path(self.key("server.pem")).read_text()
        )
        stores = {
            "ssl.keyStore.location": str(both),
            "ssl.keyStore.type": "PEM",
            "ssl.trustStore.location": self.key("authority.pem"),
            "ssl.trustStore.type": "PEM",
        }
        self.server = zookeeper_server(
            folder,
            "secureClientPort",
            ZOOKEEPER_TLS_CLASSES,
            serverCnxnFactory="org.apache.zookeeper.server.NettyServerCnxnFactory",
            **stores,
            **{"ssl.clientAuth": "need", "ssl.hostnameVerification": "false"},
        )
        self.address = self.server.address

    def shown(self) -> dict[str, str]:
        return {**self._pair, **self._user}

    def start(self) -> None:
        self.server.start()


class EtcdWithAuthentication(Guarded):
    """An etcd with TLS, which asks clients for certificates or for a user.

    Its gateway takes no certificate with a name in it when there are users.
    """

    def __init__(self, folder: Path, has_users: bool) -> None:
        super().__init__("ETCD", folder)
        self._has_users = has_users
        asks = ("--trusted-ca-file", self.key("authority.pem"), "--client-cert-auth")
        tls = ("--cert-file", self.key("server.pem"), "--key-file", self.key("server.key"))
        self.server = etcd_server(folder, "https", *tls, *(() if has_users else asks))
        self.address = self.server.address

    def shown(self) -> dict[str, str]:
        return self._user if self._has_users else self._pair

    def start(self) -> None:
        self.server.start()
        if self._has_users:
            self._add_users()

    def _add_users(self) -> None:
        """From now on ``trainer`` may touch ``/jobs/``, and nobody but root anything else."""
        begin, end = (base64.b64encode(text).decode() for text in (b"/jobs/", b"/jobs0"))
        allowed = {"permType": "READWRITE", "key": begin, "range_end": end}
        for name in ("root", "trainer"):
            self._ask("user/add", {"name": name, "password": self.PASSWORD})
            self._ask("role/add", {"name": name})
            self._ask("user/grant", {"user": name, "role": name})
        self._ask("role/grant", {"name": "trainer", "perm": allowed})
        self._ask("enable", {})

    def _ask(self, path: str, question: dict[str, Any]) -> None:
        """Asks until the server, which may not have found its leader yet, has done it."""
        context = ssl.create_default_context(cafile=self.key("authority.pem"))
        deadline = time.monotonic() + SECONDS
        while True:
            connection = http.client.HTTPSConnection(self.address, context=context, timeout=SECONDS)
            try:
                connection.request("POST", f"/v3/auth/{path}", json.dumps(question))
                answer = connection.getresponse()
                content = answer.read()
                if answer.status == http.HTTPStatus.OK or b"already" in content:
                    return
            except OSError as error:
                content = str(error).encode()
            finally:
                connection.close()
            assert time.monotonic() < deadline, content
            time.sleep(0.05)


@contextlib.contextmanager
def running(
    server: RealServer | EtcdWithAuthentication | ZooKeeperWithAuthentication,
) -> Iterator[Any]:
    """Starts a server, and kills it at the end."""
    try:
        server.start()
        yield server
    finally:
        (server if isinstance(server, RealServer) else server.server).kill()


@pytest.fixture(scope="session")
def etcd_with_certificates(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[EtcdWithAuthentication]:
    with running(EtcdWithAuthentication(tmp_path_factory.mktemp("etcds"), has_users=False)) as made:
        yield made


@pytest.fixture(scope="session")
def etcd_with_users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdWithAuthentication]:
    with running(EtcdWithAuthentication(tmp_path_factory.mktemp("etcds"), has_users=True)) as made:
        yield made


@pytest.fixture(scope="session")
def zookeeper_with_a_door(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ZooKeeperWithAuthentication]:
    with running(ZooKeeperWithAuthentication(tmp_path_factory.mktemp("zookeepers"))) as made:
        yield made


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    with running(zookeeper_server(tmp_path_factory.mktemp("zookeeper"))) as server:
        yield server


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    with running(etcd_server(tmp_path_factory.mktemp("etcd"))) as server:
        yield server
