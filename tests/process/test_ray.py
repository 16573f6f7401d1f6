"""Jobs on a real Ray: a head and two raylets on this machine, one of which is killed."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millrace.observe import job_record

EXAMPLE = Path(__file__).parents[2] / "deploy/ray/train.py"
TRAINER = """
import json, os, sys
import tensorflow as tf

config = json.loads(os.environ["TF_CONFIG"])
job, index = config["task"]["type"], config["task"]["index"]
folder, last, fails = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
if "always" in fails and job == "worker":
    sys.exit("I do not want to")
if "once" in fails and job == "worker" and index == 1 and not os.path.exists(folder + "/failed"):
    open(folder + "/failed", "w").close()
    sys.exit(3)
server = tf.train.Server(tf.train.ClusterSpec(config["cluster"]), job, index)
if job == "ps":
    server.join()
    sys.exit()
with tf.device(tf.train.replica_device_setter(cluster=config["cluster"])):
    step = tf.train.get_or_create_global_step()
    train = tf.assign_add(step, 1)
hooks = [tf.train.StopAtStepHook(last_step=last)]
with tf.train.MonitoredTrainingSession(
    server.target, index == 0, folder + "/train", hooks=hooks, save_checkpoint_steps=20
) as sess:
    print("%s begins at %d" % (job, sess.run(step)), flush=True)
    while not sess.should_stop():
        sess.run(train)
        if last > 1000:
            import time
            time.sleep(0.02)
            if os.path.exists(folder + "/enough"):
                break
print("done", flush=True)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head without CPUs, and two nodes of two."""
    utils = importlib.import_module("ray.cluster_utils")
    store = {"object_store_memory": 80 << 20}
    made = utils.Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **store}
    )
    made.nodes_of_tasks = [made.add_node(num_cpus=2, **store) for _ in range(2)]
    made.wait_for_nodes()
    yield made
    made.shutdown()


@pytest.fixture
def run(cluster: Any, tmp_path: Path) -> Any:
    """Runs `millrace launch --on ray` in a folder with the program."""
    (tmp_path / "trainer.py").write_text(TRAINER)
    environment = {
        **os.environ,
        "RAY_ADDRESS": cluster.address,
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "MILLRACE_ALLOWED_FOLDERS": str(tmp_path),
    }

    def start(*words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "millrace", "launch", "--on", "ray", "--name", "job", *words],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return start


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, _ = process.communicate(timeout=240)
    return process.returncode, out


def record(folder: Path) -> job_record.JobRecord:
    return job_record.load(folder / "millrace-logs/job/job.json")


def nothing_is_left(folder: Path) -> bool:
    """Whether no process of a task of the job in a folder is there."""
    pattern = f"millrace task --ps.* {folder} "
    return not subprocess.run(["pgrep", "-f", pattern], capture_output=True, text=True).stdout


def until(condition: Any, what: str, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def test_a_job_trains_and_a_task_that_fails_is_started_again(
    run: Any, cluster: Any, tmp_path: Path
) -> None:
    words = ["--ps", "1", "--workers", "2", "--max-restarts", "1"]
    code, out = ended(run(*words, "trainer.py", "--", str(tmp_path), "40", "once"))
    assert code == 0, out
    found = record(tmp_path)
    assert {found.tasks[name].state for name in ("worker-0", "worker-1")} == {"done"}
    assert found.tasks["worker-1"].restarts == 1 and found.exit_code == 0
    assert "(worker:0 pid=" in out and "done" in out  # logs come through Ray
    until(lambda: nothing_is_left(tmp_path), "processes are left")


def test_a_program_that_fails_ends_the_job_with_its_code(
    run: Any, cluster: Any, tmp_path: Path
) -> None:
    words = ["--workers", "1", "trainer.py", "--", str(tmp_path), "40", "always"]
    code, out = ended(run(*words))
    assert code == 1 and "worker:0 ended with 1" in out and "I do not want to" in out
    until(lambda: nothing_is_left(tmp_path), "processes are left")


def test_what_does_not_fit_is_refused_in_a_sentence(run: Any, tmp_path: Path) -> None:
    code, out = ended(run("--workers", "9", "trainer.py", "--", str(tmp_path), "40"))
    assert code == 2 and "the cluster is too small: worker:3 wants 1 CPU" in out
    words = ["--scheduler-option=worker=CPU=1+GPU=1", "--workers", "1", "trainer.py"]
    code, out = ended(run(*words))
    assert code == 2 and "1 GPU" in out and "Traceback" not in out
    code, out = ended(run("--scheduler-option=colour=red", "trainer.py"))
    assert code == 2 and "for Ray there are strategy" in out


def test_ctrl_c_leaves_nothing(run: Any, cluster: Any, tmp_path: Path) -> None:
    process = run("--workers", "1", "trainer.py", "--", str(tmp_path), "1000000000")
    watchdog = threading.Timer(200, process.kill)
    watchdog.start()
    for line in process.stdout:
        if "begins at" in line:
            break
    process.send_signal(signal.SIGINT)
    code, out = ended(process)
    watchdog.cancel()
    assert code == 130, out
    until(lambda: nothing_is_left(tmp_path), "processes are left")
    assert not record(tmp_path).is_running


def test_tasks_of_a_node_that_is_killed_go_on_elsewhere(
    run: Any, cluster: Any, tmp_path: Path
) -> None:
    words = ["--ps", "1", "--workers", "1", "--max-restarts", "2"]
    words += ["--scheduler-option=strategy=SPREAD"]
    process = run(*words, "trainer.py", "--", str(tmp_path), "1000000000")
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(process.stdout), daemon=True)
    reader.start()
    saved = tmp_path / "train" / "checkpoint"
    until(lambda: saved.exists() and "model.ckpt-0" not in saved.read_text(), "a checkpoint")
    before = {name: task.host for name, task in record(tmp_path).tasks.items()}
    victim = next(
        node
        for node in cluster.nodes_of_tasks
        if node.node_id in {before["worker-0"], before["ps-0"]}
    )
    cluster.remove_node(victim, allow_graceful=False)
    lost = {name for name, node in before.items() if node == victim.node_id}
    assert lost

    def moved() -> bool:
        tasks = record(tmp_path).tasks
        return all(tasks[name].restarts == 1 and tasks[name].host != before[name] for name in lost)

    until(moved, "the tasks are started elsewhere")
    until(
        lambda: any("begins at" in line and not line.strip().endswith(" 0") for line in lines),
        "training goes on from the checkpoint",
    )
    (tmp_path / "enough").touch()
    process.wait(timeout=120)
    reader.join()
    assert process.returncode == 0, "".join(lines[-40:])
    until(lambda: nothing_is_left(tmp_path), "processes are left")


def test_the_same_from_python(cluster: Any, tmp_path: Path) -> None:
    (tmp_path / "trainer.py").write_text(TRAINER)
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "trainer.py", str(tmp_path), "40"],
        cwd=tmp_path,
        env={
            **os.environ,
            "MILLRACE_ALLOWED_FOLDERS": str(tmp_path),
            "RAY_ADDRESS": cluster.address,
        },
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert "worker:0 ended with 0 after 0 restarts" in done.stdout.splitlines()


def test_without_a_cluster_it_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "trainer.py").write_text(TRAINER)
    done = subprocess.run(
        [sys.executable, "-m", "millrace", "launch", "--on", "ray", "trainer.py"],
        cwd=tmp_path,
        env={
            **os.environ,
            "RAY_ADDRESS": "127.0.0.1:1",
        },
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 2 and "no cluster of Ray answers" in done.stderr
    assert "Traceback" not in done.stderr
