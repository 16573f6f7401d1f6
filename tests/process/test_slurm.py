"""`millrace launch --on slurm`, on a real Slurm: a controller and two nodes on this machine."""

from __future__ import annotations

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

import millrace as tf
from millrace.platform.ports import HeldPorts

#: Names of nodes that resolve without a change to the machine: two addresses of loopback.
NODES = ("127.0.0.1", "127.0.0.2")

CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdSpoolDir={folder}/spool-%n
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
KillWait=2
NodeName={nodes[0]} NodeHostname={host} NodeAddr={nodes[0]} Port={ports[1]} CPUs=2 State=UNKNOWN
NodeName={nodes[1]} NodeHostname={host} NodeAddr={nodes[1]} Port={ports[2]} CPUs=2 State=UNKNOWN
PartitionName=all Nodes={nodes[0]},{nodes[1]} Default=YES MaxTime=INFINITE State=UP
"""

TRAINER = """
import os, sys
import tensorflow as tf
flags = tf.app.flags
flags.DEFINE_string("ps_hosts", "", "")
flags.DEFINE_string("worker_hosts", "", "")
flags.DEFINE_string("job_name", "", "")
flags.DEFINE_integer("task_index", 0, "")
flags.DEFINE_integer("code", 0, "")
flags.DEFINE_integer("steps", 20, "")
flags.DEFINE_string("folder", None, "")
FLAGS = flags.FLAGS

def main(_):
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
    if FLAGS.code:
        sys.exit("I do not want to") if FLAGS.job_name == "worker" else sys.exit(0)
    server = tf.train.Server(cluster, FLAGS.job_name, FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
        return
    with tf.device(tf.train.replica_device_setter(cluster=cluster)):
        step = tf.train.get_or_create_global_step()
        train = tf.assign_add(step, 1)
    hooks = [tf.train.StopAtStepHook(last_step=FLAGS.steps)]
    with tf.train.MonitoredTrainingSession(server.target, FLAGS.task_index == 0, FLAGS.folder, hooks=hooks) as sess:
        print("trains")
        while not sess.should_stop():
            sess.run(train)
    print("done on %s as worker %d" % (os.environ["SLURMD_NODENAME"], FLAGS.task_index))

tf.app.run()
"""  # noqa: E501


def until(condition, what: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A Slurm of two nodes; the environment in which its commands find it."""
    assert shutil.which("slurmctld"), "`make test` installs slurmctld, slurmd, slurm-client, munge"
    folder = tmp_path_factory.mktemp("slurm")
    (folder / "state").mkdir()
    (folder / "munge").mkdir(mode=0o711)
    key = folder / "munge" / "key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    with HeldPorts(3) as held:
        ports = [address.rpartition(":")[2] for address in held.addresses]
    configuration = folder / "slurm.conf"
    host = socket.gethostname().partition(".")[0]
    configuration.write_text(
        CONFIGURATION.format(folder=folder, host=host, ports=ports, nodes=NODES)
    )
    environment = {**os.environ, "SLURM_CONF": str(configuration)}
    munge = [f"--{n}={folder}/munge/{n.partition('-')[0]}" for n in ("key-file", "socket")]
    munge += [f"--{n}-file={folder}/munge/{n}" for n in ("pid", "log", "seed")]
    daemons = [
        ["munged", "--foreground", "--force", *munge],
        ["slurmctld", "-D", "-i", "-f", str(configuration)],
        *(["slurmd", "-D", "-N", node, "-f", str(configuration)] for node in NODES),
    ]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command in daemons:
            started.append(
                subprocess.Popen(
                    command,
                    env=environment,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            )
            if command[0] == "munged":
                until((folder / "munge" / "socket").exists, "munged did not start")

        def idle() -> bool:
            shown = subprocess.run(
                ["sinfo", "-h", "-o", "%D %t"], env=environment, capture_output=True, text=True
            )
            return shown.stdout.strip() == "2 idle"

        until(idle, "the nodes did not become idle")
        yield environment
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(20)


def launch(slurm: dict[str, str], folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "t.py").write_text(TRAINER)
    command = [sys.executable, "-m", "millrace", "launch", "--on", "slurm", "--logs", "logs"]
    return subprocess.run(
        [*command, *words], cwd=folder, env=slurm, capture_output=True, text=True, timeout=200
    )


def test_a_job_trains_on_two_nodes_and_ends_with_its_code(slurm, tmp_path: Path) -> None:
    two_nodes = ("--workers", "3", "--time", "5", "--scheduler-option=--nodes=2", "t.py")
    done = launch(slurm, tmp_path, "--name", "trains", *two_nodes)
    logs = {path.name: path.read_text() for path in (tmp_path / "logs").glob("*.log")}
    assert done.returncode == 0, (done, logs)
    assert done.stdout.splitlines()[-2:] == ["running", "completed"]
    said = "".join(logs.values())
    assert "done on 127.0.0.1" in said and "done on 127.0.0.2" in said
    record = json.loads((tmp_path / "logs" / "job.json").read_text())
    assert (record["name"], record["state"], record["exit_code"]) == ("trains", "ended", 0)
    assert oct((tmp_path / "logs" / "token").stat().st_mode)[-3:] == "600"


def test_what_fails_and_what_slurm_refuses_are_sentences(slurm, tmp_path: Path) -> None:
    done = launch(slurm, tmp_path, "--workers", "1", "t.py", "--", "--code=1")
    assert done.returncode != 0
    assert "millrace launch: Slurm's job" in done.stderr and "I do not want to" in done.stderr
    done = launch(slurm, tmp_path, "--workers", "99", "t.py")
    assert done.returncode == 2
    assert done.stderr.startswith("millrace launch: Slurm does not take the job: ")
    assert done.stderr.count("\n") == 1


def test_ps_and_workers_on_nodes_of_their_own_are_one_job(slurm, tmp_path: Path) -> None:
    own = ("--scheduler-option=ps:--nodelist=127.0.0.1", "--scheduler-option=worker:--ntasks=2")
    own += ("--scheduler-option=worker:--nodelist=127.0.0.2",)
    done = launch(slurm, tmp_path, "--workers", "2", *own, "t.py")
    logs = {path.name: path.read_text() for path in (tmp_path / "logs").glob("*.log")}
    assert done.returncode == 0, (done, logs)
    assert {"task-0.log", "task-1.log", "task-2.log"} <= set(logs)
    assert "done on 127.0.0.2" in logs["task-1.log"] and "done on 127.0.0.2" in logs["task-2.log"]


def test_the_chief_saves_when_slurm_wants_its_nodes_back(slurm, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    endless = ["--", "--steps=1000000", f"--folder={tmp_path}/model"]
    launch(slurm, tmp_path, "--detach", "--workers", "2", "t.py", *endless)
    log, record = tmp_path / "logs" / "task-1.log", tmp_path / "logs" / "job.json"
    until(lambda: log.exists() and "trains" in log.read_text(), "the job did not train")
    time.sleep(1.0)  # some steps
    number = json.loads(record.read_text())["identifier"]
    subprocess.run(["scancel", "--signal=TERM", number], env=slurm, check=True)

    def state() -> str:
        shown = subprocess.run(
            ["scontrol", "-o", "show", "job", number], env=slurm, capture_output=True, text=True
        )
        return shown.stdout

    until(lambda: "JobState=FAILED" in state(), f"it did not end: {state()}")
    newest = tf.train.latest_checkpoint(str(tmp_path / "model"))
    assert newest is not None and int(newest.rpartition("-")[2]) > 0, log.read_text()
