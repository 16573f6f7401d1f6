"""A network that is cut while a step waits, and mended: by a network namespace of the test's own.

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


class Namespace:
    """A loopback interface of its own, which can be taken down."""

    def __init__(self) -> None:
        self._name = f"millrace-{os.getpid()}"
        _ip("netns", "add", self._name)
        self.within = ("ip", "netns", "exec", self._name)
        self.protocol = ""
        #: Nobody else is there: any port is free.
        self.ps = self.ps_as_seen = "localhost:2222"
        self.worker = "localhost:2223"
        self.mend()

    def cut(self) -> None:
        _ip("-n", self._name, "link", "set", "lo", "down")

    def mend(self) -> None:
        _ip("-n", self._name, "link", "set", "lo", "up")

    def close(self) -> None:
        _ip("netns", "del", self._name)


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
        self.within = ()
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


@pytest.fixture(params=["namespace", "proxy"])
def network(request):
    if request.param == "namespace":
        try:
            made = Namespace()
        except (OSError, subprocess.CalledProcessError):
            made = Proxy()
    else:
        made = Proxy()
    yield made
    made.close()


def test_a_step_fails_when_the_network_is_cut_and_training_goes_on_when_it_is_mended(
    network, make_process
):
    options = {"within": network.within, "protocol": network.protocol}
    spec = {"ps": [network.ps], "worker": [network.worker]}
    make_process("ps", 0, spec, "serve", **options)
    worker = make_process("worker", 0, {**spec, "ps": [network.ps_as_seen]}, "train", **options)
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
