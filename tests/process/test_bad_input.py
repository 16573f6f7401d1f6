"""What goes wrong at run time is told in one sentence, and leaves nothing behind."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import millrace as tf
from millrace.cli import main
from millrace.platform.ports import HeldPorts

MILLRACE = [sys.executable, "-m", "millrace"]


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*MILLRACE, *arguments], cwd=cwd, capture_output=True, text=True, timeout=120
    )


def test_a_server_on_a_busy_port_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        address = f"localhost:{holder.getsockname()[1]}"
        done = run("server", "--cluster", json.dumps({"ps": [address]}), "--job", "ps", "--task=0")
    assert done.returncode == 1
    assert done.stderr.startswith("millrace server: ")
    assert f"cannot listen at {address}: another process has the port" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_program_on_a_busy_port_gets_tensorflows_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        address = f"localhost:{holder.getsockname()[1]}"
        with pytest.raises(tf.errors.UnknownError, match=f"cannot listen at {address}"):
            tf.train.Server({"ps": [address]}, "ps", 0)


@pytest.mark.parametrize("command", ["status", "stop"])
def test_a_host_that_does_not_answer_is_named(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with HeldPorts(1, "127.0.0.1") as held:
        (address,) = held.addresses
        assert main.main([command, f"grpc://{address}"]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"millrace {command}: {address} does not answer: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize("command", ["status", "stop"])
def test_a_target_that_is_no_address_is_told(
    command: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # where no job was ever launched
    assert main.main([command, "nonsense"]) == 2
    assert capsys.readouterr().err == (
        f"millrace {command}: there is no job nonsense; an address is grpc://host:port\n"
    )


def test_a_job_whose_ps_is_no_server_says_so(tmp_path: Path) -> None:
    (tmp_path / "trainer.py").write_text(
        "import sys, time\n"
        "print('I serve nobody')\n"
        "while '--job_name=worker' in sys.argv: time.sleep(0.1)\n"
    )
    done = run("launch", "--cluster-via", "flags", "trainer.py", cwd=tmp_path)
    assert done.returncode == 1
    first, *rest = done.stderr.splitlines()
    assert first.startswith("millrace launch: ps-0 ended before the workers did")
    assert "  I serve nobody" in rest


def test_a_program_that_is_no_python_fails_the_job(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("ps_hosts: see --ps_hosts in the manual (or ask\n")
    done = run("launch", "notes.txt", cwd=tmp_path)
    assert done.returncode == 1
    assert "SyntaxError: invalid syntax" in done.stderr


def test_status_tells_all_of_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    server = tf.train.Server({"ps": ["localhost:0"]}, "ps", 0)
    with tf.Graph().as_default(), tf.Session(server.target) as session:
        step = tf.train.get_or_create_global_step()
        tf.get_variable("weights", [100, 10])
        session.run(tf.global_variables_initializer())
        add = tf.assign_add(step, 1)
        over = threading.Event()

        def train() -> None:
            while not over.is_set():
                session.run(add)

        trainer = threading.Thread(target=train)
        trainer.start()
        try:
            deadline = time.monotonic() + 60
            while json.loads(server._tell_status(b""))["global_step"] < 3:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            assert main.main(["status", "--json", server.target]) == 0
            (task,) = json.loads(capsys.readouterr().out)
            assert main.main(["status", server.target]) == 0
            first, *rest = capsys.readouterr().out.splitlines()
        finally:
            over.set()
            trainer.join()
    server.stop()
    assert task["steps_per_second"] > 0
    assert task["global_step"] >= 3
    for fact in (
        f"ps:0 {server.target.removeprefix('grpc://')}: up ",
        f"incarnation {task['incarnation']:016x}",
        "devices CPU:0",
        "sessions 1",
        "variables 2 (4 KiB)",
        "sent ",
        "steps/s ",
    ):
        assert fact in first
    assert "ps:0 variable weights: float32 [100, 10], 4 KiB" in rest
