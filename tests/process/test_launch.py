"""`millrace launch`, with real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

TRAINER = """
import os, signal, sys, threading, time
import tensorflow as tf
flags = tf.app.flags
flags.DEFINE_string("ps_hosts", "", "")
flags.DEFINE_string("worker_hosts", "", "")
flags.DEFINE_string("job_name", "", "")
flags.DEFINE_integer("task_index", 0, "")
flags.DEFINE_integer("train_steps", 20, "")
flags.DEFINE_string("trouble", "", "")
FLAGS = flags.FLAGS

def die_after_a_checkpoint():
    while not os.path.exists("model/checkpoint"):
        time.sleep(0.01)
    open("tried", "w").close()
    os.kill(os.getpid(), signal.SIGKILL)

def die_after_worker_1():
    while not os.path.islink("worker-1"):
        time.sleep(0.01)
    while os.path.exists("/proc/" + os.readlink("worker-1")):
        time.sleep(0.01)
    open("tried", "w").close()
    os.kill(os.getpid(), signal.SIGKILL)

def main(_):
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","),
                                    "worker": FLAGS.worker_hosts.split(",")})
    server = tf.train.Server(cluster, FLAGS.job_name, FLAGS.task_index)
    kills = FLAGS.trouble == "killed ps"
    outlives = FLAGS.trouble in ("killed chief", "killed chief and ps")
    if FLAGS.job_name == "ps":
        if kills and not os.path.exists("tried"):
            threading.Thread(target=die_after_a_checkpoint, daemon=True).start()
        if FLAGS.trouble == "killed chief and ps" and not os.path.exists("tried"):
            threading.Thread(target=die_after_worker_1, daemon=True).start()
        server.join()
        print("ps is done")
        return
    if FLAGS.trouble == "always" and FLAGS.task_index == 1:
        raise ValueError("I cannot go on")
    if FLAGS.trouble == "once" and FLAGS.task_index == 1 and not os.path.exists("tried"):
        open("tried", "w").close()
        sys.exit(3)
    with tf.device(tf.train.replica_device_setter(cluster=cluster)):
        step = tf.train.get_or_create_global_step()
        train = tf.assign_add(step, 1)
    if FLAGS.trouble == "endless":
        FLAGS.train_steps = 10 ** 9
    hooks = [tf.train.StopAtStepHook(last_step=FLAGS.train_steps)]
    folder = "model" if kills else None
    if outlives and FLAGS.task_index == 1:
        os.symlink(str(os.getpid()), "worker-1")
        hooks = [tf.train.StopAtStepHook(num_steps=5)]
    filters = ["/job:ps", "/job:worker/task:%d" % FLAGS.task_index]
    config = tf.ConfigProto(device_filters=[] if outlives else filters)
    with tf.train.MonitoredTrainingSession(server.target, FLAGS.task_index == 0, folder,
                                           hooks=hooks, save_checkpoint_steps=10,
                                           config=config) as session:
        print("session is open")
        if outlives and FLAGS.task_index == 0 and not os.path.exists("tried"):
            session.run(train)
            die_after_worker_1()
        while not session.should_stop():
            session.run(train)
    print("worker is done")

if __name__ == "__main__":
    tf.app.run()
"""


def command(folder: Path, *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
    (folder / "trainer.py").write_text(TRAINER)
    launch = [sys.executable, "-m", "millrace", "launch", "--logs", "logs", *options]
    return [*launch, "trainer.py", "--", *arguments]


def launch(
    folder: Path, *arguments: str, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(folder, *arguments, options=options),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
    )


def processes_in(folder: Path) -> list[str]:
    """Command lines of processes that work in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if Path(os.readlink(process / "cwd")) == folder:
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def test_a_job_runs_to_its_end_and_the_ps_ends_with_it(tmp_path: Path) -> None:
    done = launch(tmp_path, options=("--json",))
    assert done.returncode == 0, done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    assert {task["state"] for task in last["tasks"].values()} == {"done"}
    assert "ps is done" in (tmp_path / "logs/ps-0.log").read_text()
    assert "worker is done" in (tmp_path / "logs/worker-1.log").read_text()
    assert not processes_in(tmp_path)


def test_a_task_that_fails_fails_the_job_and_its_log_is_shown(tmp_path: Path) -> None:
    done = launch(tmp_path, "--trouble=always")
    assert done.returncode == 1
    assert "worker-1 ended with 1; its log ends:" in done.stderr
    assert "ValueError: I cannot go on" in done.stderr
    assert not processes_in(tmp_path)


def test_a_task_that_fails_is_restarted_if_that_is_allowed(tmp_path: Path) -> None:
    done = launch(tmp_path, "--trouble=once", options=("--max-restarts", "1", "--json"))
    assert done.returncode == 0, done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["tasks"]["worker-1"]["restarts"] == 1


def test_a_job_waits_for_its_only_worker_also_when_that_is_restarted(tmp_path: Path) -> None:
    (tmp_path / "trainer.py").write_text(
        "import os, sys, time\n"
        "if not os.path.exists('tried'):\n"
        "    open('tried', 'w').close()\n"
        "    sys.exit(3)\n"
        "while not os.path.exists('go'):\n"
        "    time.sleep(0.01)\n"
    )
    launch = [sys.executable, "-m", "millrace", "launch", "--json", "--ps", "0", "--workers", "1"]
    launch += ["--max-restarts", "1", "--logs", "logs", "--cluster-via", "flags", "trainer.py"]
    with subprocess.Popen(launch, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as job:
        assert job.stdout is not None
        said = (json.loads(line)["tasks"]["worker-0"] for line in job.stdout)
        states = {(task["state"], task["restarts"]) for task in _until_restarted(said)}
        (tmp_path / "go").touch()
        states |= {(task["state"], task["restarts"]) for task in said}
        assert job.wait(120) == 0
    assert {("running", 1), ("done", 1)} <= states
    assert not states & {("stopping", 1), ("stopped", 1)}


def _until_restarted(said: Iterator[dict[str, object]]) -> Iterator[dict[str, object]]:
    for task in said:
        yield task
        if task["restarts"]:
            return


def test_a_job_survives_a_ps_that_is_killed_without_anybodys_help(tmp_path: Path) -> None:
    done = launch(
        tmp_path,
        "--trouble=killed ps",
        "--train_steps=500",
        options=("--max-restarts", "1", "--json"),
    )
    logs = {path.name: path.read_text() for path in (tmp_path / "logs").glob("*.log")}
    assert done.returncode == 0, (done.stderr, logs)
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["tasks"]["ps-0"]["restarts"] == 1
    assert "worker is done" in logs["worker-0.log"] and "worker is done" in logs["worker-1.log"]
    assert "model.ckpt-50" in (tmp_path / "model/checkpoint").read_text()  # -500, or a step later
    assert not processes_in(tmp_path)


@pytest.mark.parametrize("trouble", ["killed chief", "killed chief and ps"])
def test_a_chief_that_is_restarted_trains_on_after_another_worker_has_left(
    tmp_path: Path, trouble: str
) -> None:
    done = launch(tmp_path, f"--trouble={trouble}", options=("--max-restarts", "1", "--json"))
    logs = {path.name: path.read_text() for path in (tmp_path / "logs").glob("*.log")}
    assert done.returncode == 0, (done.stderr, logs)
    tasks = json.loads(done.stdout.splitlines()[-1])["tasks"]
    assert (tasks["worker-0"]["restarts"], tasks["worker-1"]["restarts"]) == (1, 0)
    assert tasks["ps-0"]["restarts"] == trouble.endswith("ps")
    assert "/job:worker/replica:0/task:1" in logs["worker-0.log"]
    assert "has left the job: this session does not wait for it" in logs["worker-0.log"]
    assert "worker is done" in logs["worker-0.log"] and "worker is done" in logs["worker-1.log"]
    assert not processes_in(tmp_path)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_nothing_outlives_the_launcher(tmp_path: Path, number: int, code: int) -> None:
    job = subprocess.Popen(
        command(tmp_path, "--trouble=endless"),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while len(processes_in(tmp_path)) < 4 and time.monotonic() < deadline:
        time.sleep(0.1)
    log = tmp_path / "logs/worker-1.log"
    while not log.exists() or "session is open" not in log.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    job.send_signal(number)
    output, _ = job.communicate(timeout=120)
    assert job.returncode == code, output
    deadline = time.monotonic() + 120
    while processes_in(tmp_path) and time.monotonic() < deadline:
        assert number == signal.SIGKILL
        time.sleep(0.1)
    assert not processes_in(tmp_path)


def test_a_program_that_reads_tf_config_is_told_its_place_there(tmp_path: Path) -> None:
    (tmp_path / "trainer.py").write_text(
        "import tensorflow as tf\n"
        "resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()\n"
        "place = resolver.task_type, resolver.task_id\n"
        "server = tf.train.Server(resolver.cluster_spec(), *place)\n"
        "print('I am %s %d' % place)\n"
        "if resolver.task_type == 'ps':\n"
        "    server.join()\n"
        "else:\n"
        "    with tf.device('/job:ps/task:0'):\n"
        "        answer = tf.constant(6) * 7\n"
        # The other worker may have ended: it is none of this session's business.
        "    config = tf.ConfigProto(device_filters=['/job:ps', '/job:%s/task:%d' % place])\n"
        "    print('the ps says', tf.Session(server.target, config=config).run(answer))\n"
    )
    launch = [sys.executable, "-m", "millrace", "launch", "--logs", "logs", "trainer.py"]
    done = subprocess.run(launch, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "I am ps 0" in (tmp_path / "logs/ps-0.log").read_text()
    said = (tmp_path / "logs/worker-1.log").read_text()
    assert "I am worker 1" in said
    assert "the ps says 42" in said
