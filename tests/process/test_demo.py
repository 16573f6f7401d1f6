"""What `make demo` runs, with every step of it."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

DEMO = Path(__file__).parents[2] / "examples/demo.py"


def test_the_demo_learns_mnist_and_says_what_to_do_next(tmp_path: Path) -> None:
    # As people see it, at a terminal, and with full compilation as they have it.
    environment = {**os.environ, "TMPDIR": str(tmp_path), "TERM": "xterm", "COLUMNS": "110"}
    environment.pop("XLA_FLAGS", None)
    terminal, theirs = pty.openpty()
    demo = subprocess.Popen(
        [sys.executable, str(DEMO)], stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(terminal, 65536):
            shown += part
    except OSError:  # nobody writes any more
        pass
    os.close(terminal)
    text = shown.decode()
    assert demo.wait(120) == 0, text
    accuracy = re.search(r"test accuracy (0\.\d+) after 4000 steps, (\d+) s in all", text)
    assert accuracy is not None
    assert float(accuracy[1]) > 0.97
    for column in ("task", "state", "steps", "steps/s", "restarts", "last line of its log"):
        assert column in text
    assert re.search(r"worker:1\S* .*running", text)
    assert re.search(r"global step \d+ of 4000, \d+ steps/s", text)
    checkpoint = re.search(r"checkpoint: +(\S+)", text)
    assert checkpoint is not None and Path(f"{checkpoint[1]}.index").exists()
    events = re.search(r"TensorBoard logs: +(\S+)", text)
    assert events is not None and list(Path(events[1]).glob("events.out.tfevents.*"))
    _, _, commands = text.partition("Try next:")
    assert len(commands.strip().splitlines()) == 3


def test_an_interrupted_demo_ends_everything_and_shows_no_traceback(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    demo = subprocess.Popen(
        [sys.executable, str(DEMO), "--steps=1000000000"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,
        text=True,
    )
    log = tmp_path / "millrace-demo/logs/worker-0.log"
    deadline = time.monotonic() + 120
    try:
        while not log.exists() or "step " not in log.read_text():
            assert time.monotonic() < deadline and demo.poll() is None
            time.sleep(0.1)
        os.killpg(demo.pid, signal.SIGINT)  # as a terminal does
        _, said = demo.communicate(timeout=120)
    finally:
        if demo.poll() is None:
            os.killpg(demo.pid, signal.SIGKILL)
    assert demo.returncode == 130
    assert said == ""
    assert not [p for p in Path("/proc").glob("[0-9]*") if str(tmp_path) in _command_of(p)]


def _command_of(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().decode()
    except OSError:
        return ""


def test_nonsense_is_told_in_a_sentence() -> None:
    for given in ("--steps=0", "--steps=many", "--speed=11"):
        done = subprocess.run(
            [sys.executable, str(DEMO), given], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1].startswith("demo.py: error: ")
