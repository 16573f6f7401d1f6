"""SIGTERM while a step computes: the process ends in order, soon, and with 143."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import millrace as tf
from millrace.platform.ports import HeldPorts

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
