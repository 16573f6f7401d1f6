"""A job's resources on a cluster of Kubernetes, through the official client: made, followed, gone.

Kubernetes places and restarts the pods. What is read here is what people would look at: the
conditions of the JobSet or of the workers' Job, and why a pod cannot start.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping
from typing import Any

_POLL_SECONDS = 2.0
_GROUP, _VERSION, _PLURAL = "jobset.x-k8s.io", "v1alpha2", "jobsets"
#: Why a container will never start as it stands, whatever Kubernetes tries.
_HOPELESS = {
    "ErrImagePull": "its image cannot be pulled",
    "ImagePullBackOff": "its image cannot be pulled",
    "InvalidImageName": "its image has no valid name",
    "CreateContainerError": "its container cannot be made",
    "CreateContainerConfigError": "its container cannot be made",
    "RunContainerError": "its command cannot be run; does the image have Millrace?",
    "StartError": "its command cannot be run; does the image have Millrace?",
}
_TIMEOUT = (5, 30)


class KubernetesError(Exception):
    """The cluster refuses, or is not there: one sentence."""


class Cluster:
    """What a job needs of a cluster's API server.

    Args:
      namespace: Where; the one of the client's configuration when empty.

    Raises:
      KubernetesError: The client is missing, or knows no cluster.
    """

    def __init__(self, namespace: str = "") -> None:
        try:
            self._module = importlib.import_module("kubernetes")
            self._failures = (
                self._module.client.exceptions.ApiException,
                importlib.import_module("urllib3").exceptions.HTTPError,
            )
        except ImportError:
            raise KubernetesError(
                "the client of Kubernetes is missing: pip install 'millrace-tf[kubernetes]'"
            ) from None
        config = self._module.config
        try:
            config.load_incluster_config()
            own = "default"
        except config.ConfigException:
            try:
                config.load_kube_config()
                _, active = config.list_kube_config_contexts()
                own = active["context"].get("namespace", "default")
            except (config.ConfigException, OSError, TypeError) as error:
                raise KubernetesError(
                    f"no cluster is known here ({error}): set KUBECONFIG, or print the resources "
                    "with `millrace manifest`"
                ) from None
        self.namespace = namespace or own
        settings = self._module.client.Configuration.get_default_copy()
        settings.retries = 1
        api = self._module.client.ApiClient(settings)
        self._core = self._module.client.CoreV1Api(api)
        self._batch = self._module.client.BatchV1Api(api)
        self._custom = self._module.client.CustomObjectsApi(api)

    def _call(self, what: str, function: Callable[..., Any], *words: Any, **options: Any) -> Any:
        try:
            return function(*words, _request_timeout=_TIMEOUT, **options)
        except self._failures as error:
            status = getattr(error, "status", None)
            why = getattr(error, "reason", None) or str(error)
            if status == 404 and "JobSet" in what:
                why = "JobSet is not installed there; say --plain-jobs"
            raise KubernetesError(f"the cluster does not {what}: {_one_line(why)}") from None

    # -- Making ----------------------------------------------------------------------------

    def create(self, resource: Mapping[str, Any]) -> None:
        """Makes a resource.

        Raises:
          KubernetesError: The cluster refuses.
        """
        kind, name = resource["kind"], resource["metadata"]["name"]
        what = f"make the {kind} {name}"
        if kind == "JobSet":
            place = _GROUP, _VERSION, self.namespace, _PLURAL
            self._call(what, self._custom.create_namespaced_custom_object, *place, resource)
            return
        makers = {
            "Secret": self._core.create_namespaced_secret,
            "Service": self._core.create_namespaced_service,
            "Job": self._batch.create_namespaced_job,
        }
        self._call(what, makers[kind], self.namespace, resource)

    def delete(self, resource: Mapping[str, Any]) -> None:
        """Takes a resource and all that it owns away; nothing happens if it is not there."""
        kind, name = resource["kind"], resource["metadata"]["name"]
        # What is answered is not looked at: servers answer with a Status or with what is gone.
        options = {"propagation_policy": "Foreground", "_preload_content": False}
        try:
            if kind == "JobSet":
                place = _GROUP, _VERSION, self.namespace, _PLURAL
                self._custom.delete_namespaced_custom_object(*place, name, **options)
                return
            removers = {
                "Secret": self._core.delete_namespaced_secret,
                "Service": self._core.delete_namespaced_service,
                "Job": self._batch.delete_namespaced_job,
            }
            removers[kind](name, self.namespace, **options)
        except self._failures:
            return

    # -- Looking ---------------------------------------------------------------------------

    def outcome(self, resource: Mapping[str, Any]) -> tuple[bool, str] | None:
        """Whether a JobSet or Job has succeeded, and why not; None while it runs."""
        kind, name = resource["kind"], resource["metadata"]["name"]
        if kind == "JobSet":
            place = _GROUP, _VERSION, self.namespace, _PLURAL
            read = self._custom.get_namespaced_custom_object
            found = self._call(f"tell of the {kind} {name}", read, *place, name)
        else:
            read = self._batch.read_namespaced_job
            job = self._call(f"tell of the {kind} {name}", read, name, self.namespace)
            found = self._batch.api_client.sanitize_for_serialization(job)
        for condition in (found.get("status") or {}).get("conditions") or ():
            if condition.get("status") != "True":
                continue
            if condition["type"] in ("Completed", "Complete"):
                return True, ""
            if condition["type"] == "Failed":
                return False, condition.get("message") or condition.get("reason") or ""
        return None

    def hopeless_pod(self, job: str) -> str:
        """A sentence about a pod that will never start; empty if there is none."""
        for pod in self._pods(job):
            for container in (pod.status and pod.status.container_statuses) or ():
                waiting = container.state and container.state.waiting
                ended = container.state and container.state.terminated
                reason = (waiting or ended) and (waiting or ended).reason
                if reason in _HOPELESS:
                    told = (waiting or ended).message or reason
                    return f"{pod.metadata.name}: {_HOPELESS[reason]} ({_one_line(told)})"
        return ""

    def last_lines(self, job: str, count: int = 5) -> list[str]:
        """What the pods that failed wrote last."""
        found = []
        for pod in self._pods(job):
            if pod.status is None or pod.status.phase != "Failed":
                continue
            try:
                text = self._core.read_namespaced_pod_log(
                    pod.metadata.name, self.namespace, tail_lines=count
                )
            except self._failures:
                continue
            found += [f"{pod.metadata.name}: {line}" for line in text.splitlines()]
        return found

    def _pods(self, job: str) -> list[Any]:
        listed = self._call(
            "list pods",
            self._core.list_namespaced_pod,
            self.namespace,
            label_selector=f"millrace/job={job}",
        )
        return list(listed.items)


def follow(
    cluster: Cluster, job: str, resource: Mapping[str, Any], seconds: float = _POLL_SECONDS
) -> tuple[bool, str]:
    """Waits for the end of a job: whether it has succeeded, and why not.

    Args:
      cluster: Where it runs.
      job: Its name.
      resource: The JobSet, or the Job of the workers.
      seconds: Between two looks.

    Raises:
      KubernetesError: The cluster does not answer any more.
    """
    while True:
        found = cluster.outcome(resource)
        if found is not None:
            return found
        if sentence := cluster.hopeless_pod(job):
            return False, sentence
        time.sleep(seconds)


def _one_line(text: object) -> str:
    return " ".join(str(text).split())
