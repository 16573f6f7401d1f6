"""A Kubeflow TFJob, read as a Manifest of ours; what has no counterpart is told, not dropped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millrace.launchers.kubernetes import Manifest

_JOBS = {"PS": "ps", "Chief": "chief", "Master": "chief", "Worker": "worker"}
_KNOWN_IN_CONTAINER = {
    "name", "image", "command", "args", "env", "resources", "volumeMounts", "ports",
    "imagePullPolicy",
}  # fmt: skip


def translate(tfjob: Any, secret: Mapping[str, bytes]) -> tuple[Manifest, list[str]]:
    """The manifest, and sentences about what could not be translated.

    Raises:
      ValueError: It is no TFJob, or has no worker.
    """
    if not isinstance(tfjob, dict) or tfjob.get("kind") != "TFJob":
        raise ValueError("this is no TFJob: its kind is not TFJob")
    spec = tfjob.get("spec") or {}
    replicas = spec.get("tfReplicaSpecs") or {}
    lost = [
        f"{where}.{key} has no counterpart and is left out"
        for where, keys in (("spec", spec), ("spec.runPolicy", spec.get("runPolicy") or {}))
        for key in keys
        if key not in ("tfReplicaSpecs", "runPolicy", "backoffLimit")
    ]
    tasks: dict[str, int] = {}
    requests: dict[str, Mapping[str, str]] = {}
    containers: list[dict[str, Any]] = []
    volumes: dict[str, str] = {}
    for kind in sorted(replicas, key=lambda each: list(_JOBS).index(each) if each in _JOBS else 9):
        if kind not in _JOBS:
            lost.append(f"the {kind} replicas are left out: run them as a job of their own")
            continue
        job = _JOBS[kind]
        tasks[job] = int(replicas[kind].get("replicas", 1))
        pod = (replicas[kind].get("template") or {}).get("spec") or {}
        container = _container(kind, pod, lost)
        containers.append(container)
        wanted = container.get("resources") or {}
        requests[job] = wanted.get("requests") or wanted.get("limits") or {}
        volumes |= _volumes(kind, pod, container, lost)
    if not containers:
        raise ValueError("the TFJob has no replicas that train: spec.tfReplicaSpecs is empty")
    first = containers[-1]
    for kind, each in zip(tasks, containers, strict=True):
        if _words(each) != _words(first) or each.get("image") != first.get("image"):
            lost.append(f"{kind} runs another command or image than the workers: theirs is taken")
    metadata = tfjob.get("metadata") or {}
    return Manifest(
        str(metadata.get("name", "job")),
        str(first.get("image", "")),
        tasks,
        command_of(_words(first), lost),
        secret,
        namespace=str(metadata.get("namespace", "")),
        variables=first.get("env") or (),
        requests=requests,
        volumes=volumes,
        restarts=int((spec.get("runPolicy") or {}).get("backoffLimit", 3)),
    ), list(dict.fromkeys(lost))


def command_of(words: list[str], lost: list[str]) -> list[str]:
    """`millrace task trainer.py -- args` for `python trainer.py args`."""
    for number, word in enumerate(words):
        if word.endswith(".py"):
            return ["millrace", "task", word, "--", *words[number + 1 :]]
    lost.append(
        f"the command {' '.join(words) or 'of the image'} names no program: it runs as it is"
    )
    return words


def _words(container: Mapping[str, Any]) -> list[str]:
    return [*map(str, container.get("command") or ()), *map(str, container.get("args") or ())]


def _container(kind: str, pod: Mapping[str, Any], lost: list[str]) -> dict[str, Any]:
    found = pod.get("containers") or []
    if not found:
        raise ValueError(f"the {kind} replicas have no container")
    chosen = next((each for each in found if each.get("name") == "tensorflow"), found[0])
    for each in found:
        if each is not chosen:
            lost.append(f"the container {each.get('name')} of {kind} is left out")
    lost += [
        f"{key} of the container of {kind} is left out"
        for key in chosen
        if key not in _KNOWN_IN_CONTAINER
    ]
    lost += [
        f"{key} of the pods of {kind} is left out"
        for key in pod
        if key not in ("containers", "volumes", "restartPolicy")
    ]
    return dict(chosen)


def _volumes(
    kind: str, pod: Mapping[str, Any], container: Mapping[str, Any], lost: list[str]
) -> dict[str, str]:
    """Claims and where they are mounted."""
    found = {}
    claims = {
        each["name"]: each["persistentVolumeClaim"]["claimName"]
        for each in pod.get("volumes") or ()
        if "persistentVolumeClaim" in each
    }
    for mount in container.get("volumeMounts") or ():
        if mount["name"] in claims:
            found[claims[mount["name"]]] = mount["mountPath"]
        else:
            lost.append(f"the volume {mount['name']} of {kind} is no claim, and is left out")
    return found
