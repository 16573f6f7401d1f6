"""Ctrl-C while a step begins or computes: it ends, and the session can be used on."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any

import pytest

PROGRAM = """
import sys
import millrace as tf

target = "" if sys.argv[1] == "local" else tf.train.Server.create_local_server().target
start = tf.random_uniform([])
endless = tf.while_loop(lambda x: x < 1e30, lambda x: tf.sin(x) + 1.0, [start])
with tf.Session(target) as session:
    session.run(start)
    try:
        print("up", flush=True)
        session.run(endless)
    except KeyboardInterrupt:
        print("interrupted", session.run(tf.constant(1) + 1))
"""


@pytest.mark.parametrize("kind", ["local", "server"])
def test_ctrl_c_ends_an_endless_loop(kind: str, tmp_path: Any) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with subprocess.Popen(
        [sys.executable, str(program), kind],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        while process.stdout.readline().strip() != "up":
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    assert said.strip() == "interrupted 2"
    assert process.returncode == 0
