"""Manifests: valid for Kubernetes and JobSet, and every pod finds its place."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from millrace.cli.main import main
from millrace.launchers import place
from millrace.launchers.kubernetes import Manifest, resources_of
from millrace.launchers.tfjob import translate

HERE = Path(__file__).parent
DEPLOY = HERE.parents[2] / "deploy"
JOBSET = json.loads((HERE / "jobset.schema.json").read_text())


def printed(capsys, *words: str) -> tuple[list[dict[str, Any]], str]:
    assert main(["manifest", *words]) == 0
    said = capsys.readouterr()
    return list(yaml.safe_load_all(said.out)), said.err


def check(found: list[dict[str, Any]]) -> None:
    """Holds resources against the schemas of the newest Kubernetes, and ours of JobSet."""
    for each in found:
        jobs = [each]
        if each["kind"] == "JobSet":
            jsonschema.validate(each, JOBSET)
            jobs = [
                {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": j["name"]}}
                | {"spec": j["template"]["spec"]}
                for j in each["spec"]["replicatedJobs"]
            ]
        for one in jobs:
            kubernetes_validate.validate(one, kubernetes_validate.latest_version(), strict=True)


def pods(found: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Every pod by its DNS name, with its container and its variables."""
    result = {}
    for each in found:
        if each["kind"] == "JobSet":
            jobs = [
                (f"{each['metadata']['name']}-{j['name']}-0", j["template"]["spec"])
                for j in each["spec"]["replicatedJobs"]
            ]
        elif each["kind"] == "Job":
            jobs = [(each["metadata"]["name"], each["spec"])]
        else:
            continue
        for name, spec in jobs:
            pod = spec["template"]["spec"]
            (container,) = pod["containers"]
            for index in range(spec["completions"]):
                variables = {v["name"]: v["value"] for v in container["env"]}
                variables["JOB_COMPLETION_INDEX"] = str(index)
                host = f"{name}-{index}.{pod['subdomain']}"
                result[host] = {"container": container, "variables": variables}
    return result


ASKED = ("--image", "reg/x:1", "--ps", "2", "--workers", "3", "--volume", "claim:/data")


@pytest.mark.parametrize("plain", [(), ("--plain-jobs",)])
@pytest.mark.parametrize("tls", [(), ("--tls",)])
def test_the_resources_are_valid_and_every_pod_finds_its_place(capsys, plain, tls) -> None:
    words = ("--worker-resources", "cpu=2,memory=4Gi", "--queue", "research")
    found, _ = printed(capsys, *ASKED, *plain, *tls, *words, "t.py", "--", "--x=1")
    check(found)
    places = {}
    for host, pod in pods(found).items():
        where = place.find(pod["variables"], place.Wanted())
        assert where.cluster[where.job][where.index] == f"{host}:2222"
        places[host] = (where.job, where.index)
        assert pod["container"]["command"] == ["millrace", "task", "t.py", "--", "--x=1"]
        assert pod["variables"]["MILLRACE_BIND"] == "0.0.0.0:2222"
    assert sorted(places.values()) == [
        ("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1), ("worker", 2),
    ]  # fmt: skip


def test_keys_are_in_the_secret_and_nowhere_else(capsys) -> None:
    found, _ = printed(capsys, *ASKED, "--tls", "t.py")
    secret, *others = found
    assert set(secret["data"]) == {"ca.pem", "task.pem", "task.key"}
    assert all(value not in json.dumps(others) for value in secret["data"].values())
    again, _ = printed(capsys, *ASKED, "t.py")
    once, twice = (printed(capsys, *ASKED, "t.py")[0][0]["data"]["token"] for _ in range(2))
    assert once != twice and set(again[0]["data"]) == {"token"}


def test_the_workers_decide_and_kueue_holds_the_whole(capsys) -> None:
    found, _ = printed(capsys, *ASKED, "--queue", "research", "t.py")
    jobset = found[-1]
    assert jobset["spec"]["successPolicy"]["targetReplicatedJobs"] == ["worker"]
    queued = [f["kind"] for f in found if "kueue.x-k8s.io/queue-name" in f["metadata"]["labels"]]
    assert queued == ["JobSet"]
    service = found[1]["spec"]
    assert service["clusterIP"] == "None" and service["publishNotReadyAddresses"]


def test_a_tfjob_is_translated_and_what_is_lost_is_told(capsys) -> None:
    found, said = printed(capsys, "--from", str(DEPLOY / "kubernetes/tfjob.yaml"))
    check(found)
    assert said == (
        "millrace manifest: spec.runPolicy.cleanPodPolicy has no counterpart and is left out\n"
    )
    (host, pod), *_ = pods(found).items()
    assert host == "mnist-ps-0-0.mnist"
    assert pod["container"]["command"][:4] == ["millrace", "task", "/app/mnist_async.py", "--"]
    assert pod["variables"]["LEARNING_RATE"] == "0.1"
    assert pod["variables"]["MILLRACE_ALLOWED_FOLDERS"] == "/data"
    assert found[0]["metadata"]["namespace"] == "research"


def test_parts_of_a_tfjob_that_have_no_counterpart_are_named() -> None:
    pod = {
        "containers": [
            {"name": "tensorflow", "image": "i", "command": ["sh", "x"], "lifecycle": {}},
            {"name": "sidecar", "image": "j"},
        ],
        "nodeSelector": {},
        "volumes": [{"name": "v", "hostPath": {}}],
    }
    pod["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
    spec = {"Worker": {"template": {"spec": pod}}, "Evaluator": {"replicas": 1}}
    job = {"kind": "TFJob", "metadata": {"name": "a"}, "spec": {"tfReplicaSpecs": spec}}
    manifest, lost = translate(job, {})
    assert manifest.tasks == {"worker": 1} and manifest.command == ["sh", "x"]
    told = "\n".join(lost)
    for part in (
        "Evaluator",
        "sidecar",
        "lifecycle",
        "nodeSelector",
        "volume v",
        "names no program",
    ):
        assert part in told


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["t.py"], "name the image"),
        (["--image", "i"], "name the program"),
        (["--image", "i", "--workers", "0", "t.py"], "at least one worker"),
        (["--image", "i", "--ps", "-1", "t.py"], "--ps -1"),
        (["--image", "i", "--name", "A_b", "--volume", "x", "t.py"], "'x' is not of the form"),
        (["--from", "none.yaml"], "No such file"),
    ],
)
def test_what_makes_no_manifest_is_one_sentence(words, sentence, capsys) -> None:
    assert main(["manifest", *words]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and sentence in said.err


def test_names_that_kubernetes_does_not_take_are_told() -> None:
    for name in ("Mnist", "a" * 41, "-a"):
        with pytest.raises(ValueError, match="name"):
            Manifest(name, "i", {"worker": 1}, [], {})


def test_the_example_is_what_the_command_prints(capsys) -> None:
    stored = list(yaml.safe_load_all((DEPLOY / "kubernetes/jobset.yaml").read_text()))
    check(stored)
    assert [each["kind"] for each in stored] == ["Secret", "Service", "JobSet"]
    made = resources_of(
        Manifest(
            "mnist",
            "registry.example.com/mnist:1",
            {"ps": 1, "worker": 2},
            ["millrace", "task", "/app/mnist_async.py", "--", "--train_dir=/data/mnist"],
            {"token": b"change-me"},
            requests={
                "ps": {"cpu": "1", "memory": "2Gi"},
                "worker": {"cpu": "2", "memory": "4Gi"},
            },
            volumes={"checkpoints": "/data"},
        )
    )
    assert made == stored


def test_the_image_runs_as_a_numbered_user() -> None:
    assert "USER 1000" in (DEPLOY / "Dockerfile").read_text().splitlines()


def test_the_image_has_one_layer_of_dependencies_and_they_are_the_packages(tmp_path: Path) -> None:
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", "")
    (first,) = (line for line in text.splitlines() if line.startswith("RUN python"))
    assert text.index(first) < text.index("COPY --from=build")  # sources come later
    making = first.removeprefix("RUN ").partition("&&")[0].replace("/tmp/", f"{tmp_path}/")
    shutil.copy(DEPLOY.parent / "pyproject.toml", tmp_path)
    making = making.replace("python -c", f"{sys.executable} -c")
    subprocess.run(["sh", "-c", making], check=True)
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]
    assert (tmp_path / "requirements.txt").read_text().split("\n")[:-1] == project["dependencies"]


def test_what_the_image_copies_is_sent_to_its_builder() -> None:
    sent = (DEPLOY.parent / ".dockerignore").read_text().split()
    for line in (DEPLOY / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY") and "--from" not in line:
            for source in line.split()[1:-1]:
                assert f"!{source}" in sent and (DEPLOY.parent / source).exists()
