"""`millrace launch --on kubernetes` against a double of the API server, whose pods really run.

The double records every call of the official client. Its pods are what the resources say: their
commands and variables as they stand, each in a network namespace in which the Service's names lead
to the other pods, with the Secret's files where they are mounted.
"""

from __future__ import annotations

import base64
import http.server
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
TRAINER = """
import json, os, sys
import tensorflow as tf

config = json.loads(os.environ["TF_CONFIG"])
job, index = config["task"]["type"], config["task"]["index"]
server = tf.train.Server(tf.train.ClusterSpec(config["cluster"]), job, index)
if job == "ps":
    server.join()
    sys.exit()
with tf.device(tf.train.replica_device_setter(cluster=config["cluster"])):
    step = tf.train.get_or_create_global_step()
    train = tf.assign_add(step, 1)
hooks = [tf.train.StopAtStepHook(last_step=20)]
with tf.train.MonitoredTrainingSession(server.target, index == 0, hooks=hooks) as sess:
    while not sess.should_stop():
        sess.run(train)
print("done")
"""
#: Gives a pod the files of its Secret, then runs its command.
IN_POD = """
mount -t tmpfs none /var/run && mkdir /var/run/millrace && cp "$0"/* /var/run/millrace && exec "$@"
"""


class Double(http.server.ThreadingHTTPServer):
    """An API server that keeps what it is given, and records the calls."""

    daemon_threads = True

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.kept: dict[str, dict[str, Any]] = {}
        self.pods: list[dict[str, Any]] = []
        self.has_jobset = True
        super().__init__(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)
        self.thread.start()

    def of_kind(self, kind: str) -> dict[str, Any]:
        return next(each for each in self.kept.values() if each["kind"] == kind)

    def end(self) -> None:
        self.shutdown()
        self.server_close()
        self.thread.join()


class Handler(http.server.BaseHTTPRequestHandler):
    server: Double

    def log_message(self, format: str, *words: Any) -> None:
        pass

    def tell(self, code: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def noted(self, method: str) -> str:
        path = self.path.partition("?")[0]
        self.server.calls.append((method, path))
        return path

    def do_POST(self) -> None:
        path = self.noted("POST")
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if body["kind"] == "JobSet" and not self.server.has_jobset:
            return self.tell(404, {"kind": "Status", "reason": "NotFound"})
        self.server.kept[f"{path}/{body['metadata']['name']}"] = body
        self.tell(201, body)

    def do_GET(self) -> None:
        path = self.noted("GET")
        if path.endswith("/log"):
            return self.tell(200, {})
        if path.endswith("/pods"):
            pods = {"kind": "PodList", "apiVersion": "v1", "items": self.server.pods}
            return self.tell(200, pods)
        found = self.server.kept.get(path)
        self.tell(200, found) if found else self.tell(404, {"kind": "Status"})

    def do_DELETE(self) -> None:
        path = self.noted("DELETE")
        self.server.kept.pop(path, None)
        self.tell(200, {"kind": "Status", "status": "Success"})


@pytest.fixture
def api() -> Iterator[Double]:
    found = Double()
    yield found
    found.end()


@pytest.fixture
def launch(api: Double, tmp_path: Path) -> Any:
    """Starts `millrace launch --on kubernetes` with a configuration that leads to the double."""
    place = f"http://127.0.0.1:{api.server_address[1]}"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": place}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "lab"}}],
        "current-context": "x",
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    environment = {
        **os.environ,
        "KUBECONFIG": str(tmp_path / "kubeconfig"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }

    def start(*words: str, command: str = "launch") -> subprocess.Popen[str]:
        options = ["--on", "kubernetes", "--image", "i:1", "--name", "mnist"]
        return subprocess.Popen(
            [sys.executable, "-m", "millrace", command]
            + [*(options if command == "launch" else []), *words],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


def until(condition: Any, what: str, seconds: float = 150.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def virtual_hosts() -> Any:
    path = ROOT / "benchmarks" / "virtual_hosts.py"
    spec = importlib.util.spec_from_file_location("virtual_hosts", path)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found
    spec.loader.exec_module(found)
    return found


def run_pods(jobset: dict[str, Any], secret: dict[str, Any], folder: Path) -> dict[str, int]:
    """Runs every pod of a JobSet to its end; a ps ends when the workers have left."""
    keys = folder / "keys"
    keys.mkdir()
    for name, value in secret["data"].items():
        (keys / name).write_bytes(base64.b64decode(value))
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    (bin_folder / "millrace").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m millrace "$@"\n')
    (bin_folder / "millrace").chmod(0o755)
    service = jobset["spec"]["network"]["subdomain"]
    pods = []
    for job in jobset["spec"]["replicatedJobs"]:
        spec = job["template"]["spec"]
        for index in range(spec["completions"]):
            name = f"{jobset['metadata']['name']}-{job['name']}-0-{index}"
            pods.append((name, index, spec["template"]["spec"]["containers"][0]))
    with virtual_hosts().VirtualHosts(len(pods)) as hosts:
        addresses = [address.partition(":")[0] for address in hosts.addresses]
        names = "127.0.0.1 localhost\n" + "".join(
            f"{address} {pod[0]}.{service}\n" for address, pod in zip(addresses, pods, strict=True)
        )
        made = [Path("/etc/netns") / host for host in hosts._hosts]
        processes: dict[str, subprocess.Popen[bytes]] = {}
        try:
            for number, (name, index, container) in enumerate(pods):
                made[number].mkdir(parents=True)
                (made[number] / "hosts").write_text(names)
                variables = {each["name"]: each["value"] for each in container["env"]}
                processes[name] = subprocess.Popen(
                    [*hosts.within(number), "sh", "-c", IN_POD, str(keys), *container["command"]],
                    env={
                        "PATH": f"{bin_folder}:{os.environ['PATH']}",
                        "HOME": os.environ.get("HOME", "/"),
                        "JOB_COMPLETION_INDEX": str(index),
                        **variables,
                    },
                    stdout=(folder / f"{name}.log").open("wb"),
                    stderr=subprocess.STDOUT,
                )
            return {name: process.wait(240) for name, process in processes.items()}
        finally:
            for process in processes.values():
                process.kill()
                process.wait()
            for path in made:
                shutil.rmtree(path, ignore_errors=True)


def test_a_job_is_made_its_pods_run_as_they_stand_and_it_is_taken_away(
    launch: Any, api: Double, tmp_path: Path
) -> None:
    (tmp_path / "trainer.py").write_text(TRAINER)
    process = launch("--ps", "1", "--workers", "1", str(tmp_path / "trainer.py"))
    base = "/api/v1/namespaces/lab"
    jobsets = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/lab/jobsets"
    until(lambda: ("GET", f"{jobsets}/mnist") in api.calls, f"the job is followed: {api.calls}")
    assert [path for method, path in api.calls if method == "POST"] == [
        f"{base}/secrets",
        f"{base}/services",
        jobsets,
    ]
    jobset = api.of_kind("JobSet")
    codes = run_pods(jobset, api.of_kind("Secret"), tmp_path)
    logs = {path.name: path.read_text()[-800:] for path in tmp_path.glob("*.log")}
    assert codes == {"mnist-ps-0-0": 0, "mnist-worker-0-0": 0}, logs
    assert "done" in logs["mnist-worker-0-0.log"]
    jobset["status"] = {"conditions": [{"type": "Completed", "status": "True"}]}
    out, error = process.communicate(timeout=60)
    assert process.returncode == 0, error
    assert [path for method, path in api.calls if method == "DELETE"] == [
        f"{jobsets}/mnist",
        f"{base}/services/mnist",
        f"{base}/secrets/mnist-keys",
    ]
    assert api.kept == {} and "lab/mnist" in out


def test_a_job_that_nobody_follows_is_taken_away_by_stop(launch: Any, api: Double) -> None:
    out, error = launch("--detach", "/app/trainer.py").communicate(timeout=120)
    assert "lab/mnist" in out and len(api.kept) == 3, error
    out, error = launch("mnist", command="stop").communicate(timeout=120)
    assert out == "took lab/mnist away from Kubernetes\n", error
    assert api.kept == {}
    process = launch("mnist", command="stop")
    assert "job mnist is over" in process.communicate(timeout=120)[1] and process.returncode == 1


def test_an_image_without_millrace_is_told_and_the_job_taken_away(launch: Any, api: Double) -> None:
    waiting = {"reason": "RunContainerError", "message": 'exec: "millrace": not found in $PATH'}
    status = {
        "name": "task",
        "state": {"waiting": waiting},
        "ready": False,
        "restartCount": 0,
        "image": "i:1",
        "imageID": "",
    }
    api.pods.append(
        {
            "metadata": {"name": "mnist-worker-0-0-abc"},
            "status": {"phase": "Pending", "containerStatuses": [status]},
        }
    )
    process = launch("/app/trainer.py")
    _, error = process.communicate(timeout=120)
    assert process.returncode == 1 and "does the image have Millrace?" in error
    assert "Traceback" not in error and api.kept == {}


def test_refusals_are_sentences(launch: Any, api: Double, tmp_path: Path) -> None:
    api.has_jobset = False
    _, error = launch("/app/trainer.py").communicate(timeout=120)
    assert "JobSet is not installed there; say --plain-jobs" in error and api.kept == {}
    api.end()
    _, error = launch("/app/trainer.py").communicate(timeout=120)
    assert "does not make the Secret" in error and "Traceback" not in error
    (tmp_path / "kubeconfig").unlink()
    process = launch("/app/trainer.py")
    _, error = process.communicate(timeout=120)
    assert process.returncode == 2 and "no cluster is known here" in error
