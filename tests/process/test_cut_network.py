"""A network that is cut while a step waits, and mended: by network namespaces of the test's own.

Where namespaces cannot be made (that takes root), a proxy between the tasks stops forwarding.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import threading

import pytest

from millrace.platform.ports import HeldPorts

PS = "/job:ps/replica:0/task:0"


class Namespaces:
    """One for each task, and a cable between them, which can be pulled.

    Not one loopback for both: tasks of one namespace meet where no interface is needed.
    """

    def __init__(self) -> None:
        self._names = [f"millrace-{os.getpid()}-{job}" for job in ("ps", "worker")]
        # Each is alone with the other: any address and any port is free.
        self.ps, self.worker = "10.0.0.1:2222", "10.0.0.2:2222"
        self.ps_as_seen = self.ps
        self.protocol = ""
        open_door = ("env", "MILLRACE_INSECURE=1")
        self.within_ps, self.within_worker = (
            ("ip", "netns", "exec", name, *open_door) for name in self._names
        )
        try:
            for name in self._names:
                _ip("netns", "add", name)
                _ip("-n", name, "link", "set", "lo", "up")
            one, other = self._names
            _ip("-n", one, "link", "add", "cable", "type", "veth", "peer", "cable", "netns", other)
            for name, address in zip(self._names, (self.ps, self.worker), strict=True):
                _ip("-n", name, "address", "add", f"{address.split(':')[0]}/24", "dev", "cable")
                _ip("-n", name, "link", "set", "cable", "up")
        except BaseException:
            self.close()
            raise

    def cut(self) -> None:
        _ip("-n", self._names[0], "link", "set", "cable", "down")

    def mend(self) -> None:
        _ip("-n", self._names[0], "link", "set", "cable", "up")

    def close(self) -> None:
        for name in self._names:
            with contextlib.suppress(OSError, subprocess.CalledProcessError):
                _ip("netns", "del", name)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=60)


class Proxy:
    """Forwards connections to the ps, until it is cut."""

    def __init__(self) -> None:
        self._whole = threading.Event()
        self._whole.set()
        self._listener = socket.create_server(("localhost", 0))
        self._held = HeldPorts(2)
        self.ps, self.worker = self._held.addresses
        self.ps_as_seen = f"localhost:{self._listener.getsockname()[1]}"
        self.within_ps = self.within_worker = ()
        self.protocol = "grpc"  # The fast plane would go by another port.
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                one, _ = self._listener.accept()
                threading.Thread(target=self._forward, args=(one,), daemon=True).start()

    def _forward(self, one: socket.socket) -> None:
        self._whole.wait()
        try:
            other = socket.create_connection(("localhost", int(self.ps.rpartition(":")[2])))
        except OSError:
            one.close()
            return
        with contextlib.suppress(OSError), one, other:
            while True:
                for source in select.select([one, other], [], [], 1.0)[0]:
                    self._whole.wait()
                    data = source.recv(1 << 16)
                    if not data:
                        return
                    (other if source is one else one).sendall(data)

    def cut(self) -> None:
        self._whole.clear()

    def mend(self) -> None:
        self._whole.set()

    def close(self) -> None:
        self.mend()
        self._listener.close()
        self._held.close()


@pytest.fixture(params=["namespaces", "proxy"])
def network(request):
    if request.param == "namespaces":
        try:
            made = Namespaces()
        except (OSError, subprocess.CalledProcessError):
            made = Proxy()
    else:
        made = Proxy()
    yield made
    made.close()


def test_a_step_fails_when_the_network_is_cut_and_training_goes_on_when_it_is_mended(
    network, make_process
):
    spec = {"ps": [network.ps], "worker": [network.worker]}
    seen = {**spec, "ps": [network.ps_as_seen]}
    how = network.protocol
    make_process("ps", 0, spec, "serve", within=network.within_ps, protocol=how)
    worker = make_process("worker", 0, seen, "train", within=network.within_worker, protocol=how)
    worker.hears("^step")
    network.cut()
    line = worker.hears("^error")
    assert "UnavailableError" in line and PS in line, line
    last = int([each for each in worker.said if each.startswith("step")][-1].split()[1])
    network.mend()
    worker.hears("^at last")
    value = int(worker.hears("^value").split()[1])
    # The step that failed was made or not; but nothing that was sent then arrives now.
    assert value in (last, last + 1)
    for i in range(1, 20):
        assert worker.hears("^step") == f"step {value + i}"
