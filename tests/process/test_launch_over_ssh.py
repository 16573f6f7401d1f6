"""`millrace launch --hosts a,b --ssh`, with a real sshd: a and b are addresses of this machine."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.cli.task_process import without_time

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
HOSTS = ("127.0.0.1", "127.0.0.2")
TRAINER = """
import os
import tensorflow as tf
flags = tf.app.flags
flags.DEFINE_string("ps_hosts", "", "")
flags.DEFINE_string("worker_hosts", "", "")
flags.DEFINE_string("job_name", "", "")
flags.DEFINE_integer("task_index", 0, "")
flags.DEFINE_integer("train_steps", 20, "")
FLAGS = flags.FLAGS

def main(_):
    print("came by ssh from", os.environ["SSH_CONNECTION"])
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","),
                                    "worker": FLAGS.worker_hosts.split(",")})
    server = tf.train.Server(cluster, FLAGS.job_name, FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
        return
    with tf.device(tf.train.replica_device_setter(cluster=cluster)):
        step = tf.train.get_or_create_global_step()
        train = tf.assign_add(step, 1)
    hooks = [tf.train.StopAtStepHook(last_step=FLAGS.train_steps)]
    config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
    with tf.train.MonitoredTrainingSession(server.target, FLAGS.task_index == 0,
                                           hooks=hooks, config=config) as session:
        print("session is open")
        while not session.should_stop():
            session.run(train)
    print("worker is done")

if __name__ == "__main__":
    tf.app.run()
"""


def free_ports(count: int) -> int:
    """The first of so many ports in a row that nobody has on any of the hosts."""
    # Below the ports that connections get, and far from those of a test in the next process.
    start = 20000 + os.getpid() * 97 % 8000
    for first in range(start, start + 90, count):
        try:
            sockets = [
                socket.create_server((host, first + i)) for host in HOSTS for i in range(count)
            ]
        except OSError:
            continue
        for each in sockets:
            each.close()
        return first
    raise AssertionError("no free ports")


def assert_nothing_is_left(folder: Path) -> None:
    """No process works in a folder: at most, one still learns that its connection is gone."""
    deadline = time.monotonic() + 60
    while left := [p for p in Path("/proc").glob("[0-9]*") if _works_in(p, folder)]:
        assert time.monotonic() < deadline, [(p / "cmdline").read_bytes() for p in left]
        time.sleep(0.1)


def _works_in(process: Path, folder: Path) -> bool:
    try:
        return Path(os.readlink(process / "cwd")) == folder
    except OSError:
        return False


@pytest.fixture(scope="module")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The command that connects to an sshd of the test's own."""
    assert SSHD, "this test needs sshd: apt-get install openssh-server"
    folder = tmp_path_factory.mktemp("sshd")
    for name in ("host", "user"):
        key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(key, check=True)
    port = free_ports(1)
    (folder / "config").write_text(
        "\n".join(
            [
                f"Port {port}",
                *(f"ListenAddress {host}" for host in HOSTS),
                f"HostKey {folder / 'host'}",
                f"AuthorizedKeysFile {folder / 'user.pub'}",
                "PidFile none",
                "StrictModes no",
                "UsePAM no",
                "PermitRootLogin prohibit-password",
                "PasswordAuthentication no",
            ]
        )
    )
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd insists on it when it is root
    with (folder / "log").open("wb") as log:
        daemon = subprocess.Popen([SSHD, "-D", "-e", "-f", str(folder / "config")], stderr=log)
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection((HOSTS[1], port), 1).close()
            break
        except OSError:
            assert daemon.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
    options = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    yield f"ssh -F none -i {folder / 'user'} -p {port} -l {getpass.getuser()} {options}"
    daemon.terminate()
    daemon.wait()


def command(folder: Path, ssh: str, *arguments: str, hosts: tuple[str, ...] = HOSTS) -> list[str]:
    (folder / "trainer.py").write_text(TRAINER)
    launch = [sys.executable, "-m", "millrace", "launch", "--json", "--logs", "logs", "--ps", "1"]
    launch += ["--hosts", ",".join(hosts), "--port", str(free_ports(3)), "--ssh"]
    return [*launch, "--ssh-command", ssh, "trainer.py", "--", *arguments]


def test_a_job_runs_on_the_machines_and_its_output_comes_back(tmp_path: Path, ssh: str) -> None:
    launch = command(tmp_path, ssh)
    launch.insert(launch.index("--ssh"), "--tls")
    done = subprocess.run(launch, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "millrace-certificates").is_dir()
    last = json.loads(done.stdout.splitlines()[-1])
    assert {task["state"] for task in last["tasks"].values()} == {"done"}
    log = (tmp_path / "logs/worker-1.log").read_text()
    assert "worker is done" in log
    assert without_time(log).startswith("came by ssh from 127.0.0.")
    assert_nothing_is_left(tmp_path)


def test_nothing_is_left_on_the_machines_when_the_launcher_is_killed(
    tmp_path: Path, ssh: str
) -> None:
    job = subprocess.Popen(
        command(tmp_path, ssh, "--train_steps=1000000000"),
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    log = tmp_path / "logs/worker-1.log"
    while not log.exists() or "session is open" not in log.read_text():
        assert time.monotonic() < deadline and job.poll() is None
        time.sleep(0.1)
    job.kill()
    job.wait()
    assert_nothing_is_left(tmp_path)


def test_a_machine_that_does_not_answer_is_told_in_a_sentence(tmp_path: Path, ssh: str) -> None:
    done = subprocess.run(
        command(tmp_path, ssh, hosts=("127.0.0.1", "127.0.0.3")),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 255
    assert done.stderr.startswith("millrace launch: ssh could not start worker-1: ")
    assert "127.0.0.3" in done.stderr
    assert "Connection refused" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert_nothing_is_left(tmp_path)


def test_an_ssh_that_is_not_there_is_told_in_a_sentence(tmp_path: Path) -> None:
    done = subprocess.run(
        command(tmp_path, "no-such-ssh"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2
    assert "no-such-ssh" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert_nothing_is_left(tmp_path)
