"""Tasks in processes of their own, and what their tests share."""

from __future__ import annotations

import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from millrace.platform.ports import HeldPorts
from millrace.rpc.service import Connection

PROGRAM = Path(__file__).parent / "programs" / "task.py"
SECONDS = 180.0


class Process:
    """A task, and the lines that it has said."""

    def __init__(self, job, index, spec, program, *arguments, protocol="", within=(), heartbeat=2):
        self.name = f"{job}{index}"
        self.address = spec[job][index]
        words = [job, str(index), json.dumps(spec), program, protocol, *arguments]
        self.popen = subprocess.Popen(
            [*within, sys.executable, str(PROGRAM), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "MILLRACE_HEARTBEAT_SECONDS": str(heartbeat)},
        )
        self.said = []
        self._lines = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.popen.stdout:
            self._lines.put(line.rstrip())
        self._lines.put(None)

    def hears(self, pattern):
        """The next line that matches."""
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                line = self._lines.get(timeout=max(0.01, deadline - time.monotonic()))
            except queue.Empty:
                line = None
            assert line is not None, (self.name, pattern, self.said[-20:])
            self.said.append(line)
            if re.search(pattern, line):
                return line

    def send_signal(self, number):
        """Sends a signal; once SIGSTOP is sent, the process has done its last step."""
        self.popen.send_signal(number)
        if number == signal.SIGSTOP:
            self._wait_until_stopped()

    def _wait_until_stopped(self):
        # Its other threads run on until one of them takes the signal: long, on busy cores.
        stat = Path(f"/proc/{self.popen.pid}/stat")
        deadline = time.monotonic() + SECONDS
        while (state := stat.read_text().rpartition(")")[2].split()[0]) != "T":
            assert time.monotonic() < deadline, (self.name, "is not stopped but", state)
            time.sleep(0.001)

    def status(self):
        """What its server says of itself."""
        connection = Connection(self.address)
        try:
            return json.loads(connection.status(SECONDS))
        finally:
            connection.close()

    def end(self):
        self.popen.kill()
        self.popen.wait()
        self._reader.join(60)
        self.popen.stdout.close()


@pytest.fixture
def make_process():
    """Starts tasks, and ends them."""
    made = []

    def make(*args, **kwargs):
        made.append(Process(*args, **kwargs))
        return made[-1]

    yield make
    for process in made:
        process.end()


@pytest.fixture
def start(make_process):
    """Starts tasks of a cluster with a ps and two workers: ``start("ps", 0, program)``."""
    with HeldPorts(3) as held:
        ps, *workers = held.addresses
        spec = {"ps": [ps], "worker": workers}

        def run(job, index, program, *arguments, **options):
            return make_process(job, index, spec, program, *arguments, **options)

        yield run


@pytest.fixture
def browser():
    """A real one, without a window."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    assert chromium and driver, "this test needs apt-get install chromium chromium-driver"
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in (
        "--headless=new",
        "--no-sandbox",  # root has none
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--window-size=1200,760",
    ):
        options.add_argument(argument)
    found = webdriver.Chrome(options=options, service=Service(driver))
    yield found
    found.quit()


@pytest.fixture
def until():
    """Waits for what processes do, or a browser shows: ``until(lambda: ..., "a curve")``."""

    def wait(found, what="what the test waits for"):
        deadline = time.monotonic() + 120
        while not (value := found()):
            assert time.monotonic() < deadline, f"{what} did not come"
            time.sleep(0.25)
        return value

    return wait
