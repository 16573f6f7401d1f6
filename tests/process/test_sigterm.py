"""SIGTERM while a step computes: the process ends in order, soon, and with 143."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import millrace as tf
from millrace.platform.ports import HeldPorts
from millrace.rpc.security import Security
from millrace.rpc.service import Connection

#: Two thirds of the tries ended in a crash before servers ended in order.
TRIES = 6

PROGRAM = """
import sys
import millrace as tf

target = "" if sys.argv[1] == "local" else tf.train.Server.create_local_server().target
x = tf.random_normal([600, 600])
product = tf.reduce_sum(tf.matmul(tf.matmul(x, x), x))
with tf.Session(target) as session:
    session.run(product)
    print("up", flush=True)
    while True:
        session.run(product)
"""


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """How a process ends after SIGTERM, and what it says last."""
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=60)
    return process.returncode, said


@contextlib.contextmanager
def killed_at_the_end(process: subprocess.Popen[str]) -> Iterator[None]:
    """A test that fails does not wait for the process."""
    try:
        yield
    finally:
        process.kill()


@pytest.mark.parametrize("kind", ["local", "server"])
@pytest.mark.parametrize("launcher", [(), ("-m", "millrace", "run")])
def test_a_program_ends(kind: str, launcher: tuple[str, ...], tmp_path: Any) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with subprocess.Popen(
        [sys.executable, *launcher, str(program), kind],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        while process.stdout.readline().strip() != "up":
            assert process.poll() is None
        code, said = ended(process)
    assert code in (-signal.SIGTERM, 143), said
    assert "Fatal Python error" not in said and "Segmentation" not in said


def steps() -> list[Callable[[], Any]]:
    def loop() -> Any:
        start = tf.random_uniform([])
        return tf.while_loop(lambda x: x < 1e30, lambda x: tf.sin(x) + 1.0, [start])

    def product() -> Any:
        x = tf.random_normal([1200, 1200])
        return tf.reduce_sum(tf.matmul(tf.matmul(x, x), x))

    def wait() -> Any:
        return tf.FIFOQueue(1, [tf.int32], shared_name="empty").dequeue()

    return [loop, product, wait]


def test_a_server_ends_whatever_it_computes(background: Any, until: Any) -> None:
    for attempt in range(TRIES):
        make = steps()[attempt % 3]
        with (
            HeldPorts(1) as held,
            subprocess.Popen(
                [sys.executable, "-m", "millrace", "server", "--cluster"]
                + [f'{{"local": ["{held.addresses[0]}"]}}'],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            ) as process,
            killed_at_the_end(process),
        ):
            assert process.stdout is not None
            assert "serves at" in process.stdout.readline()
            with tf.Graph().as_default():
                step = make()
                session = tf.Session(f"grpc://{held.addresses[0]}")
                running = background(lambda s=session, f=step: repeat(s, f))
                until(lambda s=session: running_steps(s) > 0)
                code, said = ended(process)
                with pytest.raises(tf.errors.OpError):
                    running.result()
                session.close()
        assert code == 143, (attempt, code, said)
        assert "Fatal Python error" not in said, said


def repeat(session: Any, step: Any) -> None:
    while True:
        session.run(step)


def running_steps(session: Any) -> int:
    return int(json.loads(session._backend._connection.status(60.0))["running_steps"])


TRAINER = Path(__file__).parent / "programs" / "linear_trainer.py"
#: In which order the tasks of a job get the signal.
ORDERS = [("ps:0", "worker:0", "worker:1"), ("worker:1", "ps:0", "worker:0"), ("worker:0", "ps:0")]


@pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])
@pytest.mark.parametrize("order", ORDERS, ids=" ".join)
def test_each_task_of_a_job_ends(
    order: tuple[str, ...], sync: bool, tmp_path: Path, until: Any
) -> None:
    """A ps, the chief and a worker, in the middle of steps and while they wait for each other."""
    names = ["ps:0", "worker:0", "worker:1"]
    with HeldPorts(3) as held, contextlib.ExitStack() as stack:
        flags = ["--ps", held.addresses[0], "--workers", ",".join(held.addresses[1:])]
        flags += ["--steps", "1000000", *(["--sync"] if sync else [])]
        tasks: dict[str, subprocess.Popen[str]] = {}
        for name in names:
            job, _, number = name.partition(":")
            tasks[name] = subprocess.Popen(
                [sys.executable, "-m", "millrace", "run", str(TRAINER), job, number, *flags],
                stdout=subprocess.DEVNULL,
                stderr=(tmp_path / name).open("w"),
                text=True,
            )
            stack.callback(tasks[name].kill)
        connection = Connection(held.addresses[0], Security())
        stack.callback(connection.close)
        until(lambda: has_trained(connection))
        for name in order:
            process = tasks.pop(name)
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
            said = (tmp_path / name).read_text()
            assert code == 143, (name, code, said)
            assert "Fatal Python error" not in said and "Traceback" not in said, (name, said)
        for process in tasks.values():
            process.kill()
            process.wait()


@pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])
def test_the_chief_saves_before_a_scheduler_ends_the_job(
    sync: bool, tmp_path: Path, until: Any
) -> None:
    """The signal reaches all tasks at once; the ps serve until the checkpoint is written."""
    folder = tmp_path / "model"
    with HeldPorts(3) as held, contextlib.ExitStack() as stack:
        flags = ["--ps", held.addresses[0], "--workers", ",".join(held.addresses[1:])]
        flags += ["--steps", "1000000", "--folder", str(folder), *(["--sync"] if sync else [])]
        tasks = []
        for task in ["ps 0", "worker 0", "worker 1"]:
            log = stack.enter_context((tmp_path / task).open("w"))
            command = [sys.executable, "-m", "millrace", "run", str(TRAINER), *task.split()]
            variables = {**os.environ, "MILLRACE_GRACE_SECONDS": "30"}
            tasks.append(subprocess.Popen(command + flags, env=variables, stdout=log, stderr=log))
            stack.callback(tasks[-1].kill)
        connection = Connection(held.addresses[0], Security())
        stack.callback(connection.close)
        until(lambda: has_trained(connection, steps=200))
        for process in tasks:
            process.send_signal(signal.SIGTERM)
        codes = [process.wait(60) for process in tasks]
    assert codes == [143, 143, 143]
    newest = tf.train.latest_checkpoint(str(folder))
    assert tf.train.load_checkpoint(newest).get_tensor("global_step") > 5, os.listdir(folder)
    assert "could not be saved" not in (tmp_path / "worker 0").read_text()


def has_trained(connection: Connection, steps: int = 20) -> bool:
    try:
        return int(json.loads(connection.status(10.0))["steps"]) > steps
    except tf.errors.OpError:
        return False


def test_who_waits_for_a_task_is_told_that_it_has_stopped(background: Any, until: Any) -> None:
    with (
        HeldPorts(1) as held,
        subprocess.Popen(
            [sys.executable, "-m", "millrace", "run", str(TRAINER), "ps", "0"]
            + ["--ps", held.addresses[0], "--workers", "localhost:1"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process,
        killed_at_the_end(process),
        tf.Graph().as_default(),
    ):
        config = tf.ConfigProto(device_filters=["/job:ps"])
        taken = tf.FIFOQueue(1, [tf.int32], shared_name="empty").dequeue()
        session = tf.Session(f"grpc://{held.addresses[0]}", config=config)
        waiting = background(lambda: session.run(taken))
        until(lambda: running_steps(session) > 0)
        code, said = ended(process)
        assert code == 143, said
        with pytest.raises(tf.errors.OpError, match="stopped|closed|cancelled"):
            waiting.result()
        session.close()


def test_a_program_with_a_handler_of_its_own_and_one_that_forks(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os, signal, sys, time\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    time.sleep(600)\n"
        "os.kill(child, signal.SIGTERM)\n"
        "_, status = os.waitpid(child, 0)\n"
        "time.sleep(0.2)\n"
        "assert os.WTERMSIG(status) == signal.SIGTERM, status\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "time.sleep(600)\n"
    )
    done = subprocess.run([sys.executable, "-m", "millrace", "run", str(program)], timeout=120)
    assert done.returncode == 7
