"""`millrace launch` with certificates of the job's own, and what is left of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from millrace.cli.task_process import without_time

TRAINER = """
import json, os, stat, sys
import tensorflow as tf

place = json.loads(os.environ["TF_CONFIG"])
job, index = place["task"]["type"], place["task"]["index"]
key = os.environ["MILLRACE_TLS_KEY"]
assert stat.S_IMODE(os.stat(key).st_mode) == 0o400, oct(os.stat(key).st_mode)
print("key at", key)
server = tf.train.Server(place["cluster"], job, index)
if job == "ps":
    server.join()
    sys.exit()
with tf.device(tf.train.replica_device_setter(cluster=tf.train.ClusterSpec(place["cluster"]))):
    weight = tf.get_variable("weight", [1000], initializer=tf.zeros_initializer())
    step = tf.train.get_or_create_global_step()
    loss = tf.reduce_sum(tf.square(weight - 1.0))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
hooks = [tf.train.StopAtStepHook(last_step=40)]
config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % index])
with tf.train.MonitoredTrainingSession(
    server.target, index == 0, hooks=hooks, config=config
) as session:
    while not session.should_stop():
        last, _ = session.run([loss, train])
print("loss", last)
if index == 0:
    os.environ.pop("MILLRACE_TLS_CA"), os.environ.pop("MILLRACE_TLS_CERTIFICATE")
    os.environ.pop("MILLRACE_TLS_KEY")
    try:
        tf.Session("grpc://" + place["cluster"]["ps"][0])
    except tf.errors.UnauthenticatedError as error:
        print("a stranger is told:", error.message)
"""


def test_a_job_with_certificates_of_its_own_trains_and_leaves_none(tmp_path: Path) -> None:
    (tmp_path / "trainer.py").write_text(TRAINER)
    command = ["launch", "--tls", "--ps", "1", "--workers", "2", "--logs", "logs", "trainer.py"]
    done = subprocess.run(
        [sys.executable, "-m", "millrace", *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    logs = {path.stem: without_time(path.read_text()) for path in (tmp_path / "logs").glob("*.log")}
    assert "a stranger is told: The server at localhost:" in logs["worker-0"], logs
    lines = [line for log in logs.values() for line in log.splitlines()]
    keys = {line.removeprefix("key at ") for line in lines if line.startswith("key at ")}
    assert len(keys) == 3 and not any(Path(key).exists() for key in keys)
    losses = [float(line.removeprefix("loss ")) for line in lines if line.startswith("loss ")]
    # The loss of who was slow may be an old one, and its gradient too.
    assert len(losses) == 2 and min(losses) < 100
    assert not any("PRIVATE KEY" in line for line in lines)


LAUNCHER = """
import sys
from millrace.cli.job import Task
from millrace.cli.security import certified
with certified([Task("ps-0", [], {}, True, "localhost:1")], True) as tasks:
    print(tasks[0].environment["MILLRACE_TLS_KEY"], flush=True)
    sys.stdin.read()
"""


def test_the_keys_of_a_job_are_in_no_file_and_go_with_a_launcher_that_is_killed(
    tmp_path: Path,
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert process.stdout is not None
    try:
        key = Path(process.stdout.readline().strip())
        assert b"PRIVATE KEY" in key.read_bytes()
        assert list(tmp_path.iterdir()) == []
    finally:
        process.kill()
        process.communicate()
    assert not key.exists()
    assert list(tmp_path.iterdir()) == []
