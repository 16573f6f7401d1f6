"""A job on Ray: a placement group, an actor per task, and what is started again when one is lost.

Ray places the tasks and tells when a node dies. A task whose process fails is started again where
it was, at its address. A task whose node is lost gets another node and so another address, which
all others must know: then every task is started again, and training goes on from its checkpoint.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from millrace.launchers.place import CLUSTER, JOB, TASK
from millrace.launchers.ray_task import RayTask
from millrace.platform.reachability import why_unreachable
from millrace.rpc.security import TOKEN, TOKEN_FILE

PACK, SPREAD = "PACK", "SPREAD"
STRATEGIES = (PACK, SPREAD)
#: How long Ray may take to find room for what does fit.
_PLACE_SECONDS = 300.0
_POLL_SECONDS = 1.0


class RayError(Exception):
    """Ray refuses, or is not there: one sentence."""


@dataclasses.dataclass(frozen=True)
class RayJob:
    """What Ray is asked for.

    Attributes:
      script: The program, as the nodes see it.
      arguments: Its own.
      ps, workers: How many tasks of each.
      resources: Of a task, by its kind: ``{"worker": {"CPU": 2, "GPU": 1, "memory": 4e9}}``.
      strategy: PACK (as few nodes as possible) or SPREAD.
      max_restarts: How often a task may be started again.
      variables: Set for the tasks.
      cluster_via: How the program learns its cluster, if its source does not say.
    """

    script: str
    arguments: Sequence[str] = ()
    ps: int = 1
    workers: int = 2
    resources: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)
    strategy: str = PACK
    max_restarts: int = 3
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)
    cluster_via: str = ""

    def __post_init__(self) -> None:
        if self.ps < 0 or self.workers < 1:
            raise ValueError(
                f"ps={self.ps}, workers={self.workers}: a job has no ps or more, and at least one "
                "worker"
            )
        if self.strategy not in STRATEGIES:
            raise ValueError(f"strategy={self.strategy!r}: there are {' and '.join(STRATEGIES)}")

    @property
    def names(self) -> list[str]:
        """The tasks, as ``ps:0``, in the order of the bundles."""
        counts = {"ps": self.ps, "worker": self.workers}
        return [f"{job}:{i}" for job, count in counts.items() for i in range(count)]

    def bundle(self, name: str) -> dict[str, float]:
        """What a task needs of its node."""
        return {"CPU": 1.0, **self.resources.get(name.partition(":")[0], {})}


@dataclasses.dataclass
class TaskResult:
    """How a task stands.

    Attributes:
      address: Where it serves.
      exit_code: Its process' last one, None while it runs.
      restarts: How often it was started again.
      node: Where it is, as Ray names nodes.
    """

    address: str = ""
    exit_code: int | None = None
    restarts: int = 0
    node: str = ""
    last_lines: list[str] = dataclasses.field(default_factory=list)


def connect(address: str | None, runtime_env: Mapping[str, Any] | None = None) -> Any:
    """Ray, connected to a cluster.

    Raises:
      RayError: It is not installed, or there is no cluster.
    """
    try:
        ray = importlib.import_module("ray")
    except ImportError:
        raise RayError("Ray is missing: pip install 'millrace-tf[ray]'") from None
    if not ray.is_initialized():
        where = address or os.environ.get("RAY_ADDRESS") or "this machine"
        # Ray itself would try for minutes.
        why = why_unreachable(where) if re.fullmatch(r"[^/]+:\d+", where) else ""
        if why:
            raise _no_cluster(where, why)
        try:
            ray.init(
                address=address or "auto",
                runtime_env=dict(runtime_env or {}),
                logging_level="ERROR",
            )
        except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
            raise _no_cluster(where, _first_line(error)) from None
    return ray


def _no_cluster(where: str, why: str) -> RayError:
    return RayError(
        f"no cluster of Ray answers at {where} ({why}); start one with `ray start --head`, or name "
        "one: RAY_ADDRESS=host:6379"
    )


class RayRun:
    """One run of a job.

    Args:
      ray: The module, connected.
      job: What to run.
      changed: Is told the tasks when something about them has changed.
      token: The job's; a new one by default.
    """

    def __init__(
        self,
        ray: Any,
        job: RayJob,
        changed: Callable[[dict[str, TaskResult]], None],
        token: str = "",
    ) -> None:
        self._ray = ray
        self._job = job
        self._changed = changed
        self._token = token or secrets.token_urlsafe(32)
        self._group: Any = None
        self._actors: dict[str, Any] = {}
        #: When the tasks that are lost must have a place again.
        self._place_by = time.monotonic() + _PLACE_SECONDS
        self.tasks = {name: TaskResult() for name in job.names}

    def run(self) -> int:
        """Runs the job to its end, and leaves nothing; the exit code.

        Raises:
          RayError: There is no room for it.
        """
        try:
            self._place()
            code: int | None = None
            while code is None:
                code = self._run_once()
            return code
        finally:
            self.close()

    def close(self) -> None:
        """Ends everything that Ray holds for the job."""
        actors, self._actors = self._actors, {}
        stops = []
        for actor in actors.values():
            stops.append(actor.stop.remote())
        if stops:
            self._ray.wait(stops, num_returns=len(stops), timeout=15.0)
        for actor in actors.values():
            self._ray.kill(actor)
        if self._group is not None:
            self._ray.util.remove_placement_group(self._group)
            self._group = None

    # -- Places ----------------------------------------------------------------------------

    def _place(self) -> None:
        bundles = [self._job.bundle(name) for name in self._job.names]
        self._check_room(bundles)
        util = importlib.import_module("ray.util")
        self._group = util.placement_group(bundles, strategy=self._job.strategy)
        if not self._group.wait(_PLACE_SECONDS):
            raise RayError(
                f"Ray found no room for {len(bundles)} tasks in {_PLACE_SECONDS:.0f} s: other jobs "
                "hold what its nodes have"
            )

    def _check_room(self, bundles: list[dict[str, float]]) -> None:
        """Whether the nodes could hold the tasks if they had nothing else to do."""
        nodes = [dict(n["Resources"]) for n in self._ray.nodes() if n["Alive"]]
        have = [dict(node) for node in nodes]
        for name, bundle in zip(self._job.names, bundles, strict=True):
            room = next((n for n in have if all(n.get(k, 0) >= v for k, v in bundle.items())), None)
            if room is None:
                wanted = ", ".join(f"{value:g} {key}" for key, value in bundle.items())
                total = {k: sum(n.get(k, 0) for n in nodes) for k in bundle}
                there = ", ".join(f"{value:g} {key}" for key, value in total.items())
                raise RayError(
                    f"the cluster is too small: {name} wants {wanted}, and its {len(nodes)} nodes "
                    f"have {there} for all {len(bundles)} tasks; ask for fewer tasks or less each"
                )
            for key, value in bundle.items():
                room[key] -= value

    def _start_actor(self, name: str) -> None:
        strategies = importlib.import_module("ray.util.scheduling_strategies")
        bundle = self._job.bundle(name)
        index = self._job.names.index(name)
        options: dict[str, Any] = {
            "num_cpus": bundle["CPU"],
            "num_gpus": bundle.get("GPU", 0),
            "max_concurrency": 4,  # it is asked and stopped while it runs
            "max_restarts": 0,
            "scheduling_strategy": strategies.PlacementGroupSchedulingStrategy(
                placement_group=self._group, placement_group_bundle_index=index
            ),
        }
        if "memory" in bundle:
            options["memory"] = bundle["memory"]
        rest = {k: v for k, v in bundle.items() if k not in ("CPU", "GPU", "memory")}
        if rest:
            options["resources"] = rest
        kind = self._ray.remote(_Actor).options(**options)
        self._actors[name] = kind.remote(name)

    # -- Running ---------------------------------------------------------------------------

    def _run_once(self) -> int | None:
        """Runs all tasks until they are done (an exit code), or until a node is lost (None)."""
        for name in self._job.names:
            if name not in self._actors:
                self._start_actor(name)
        if not self._learn_addresses():
            return None
        runs = {self._begin(name): name for name in self._job.names}
        self._changed(self.tasks)
        lost: set[str] = set()
        while not lost:
            ready, _ = self._ray.wait(list(runs), num_returns=1, timeout=_POLL_SECONDS)
            for ref in ready:
                name = runs.pop(ref)
                task = self.tasks[name]
                try:
                    task.exit_code = self._ray.get(ref)
                except self._ray.exceptions.RayError:
                    lost.add(name)
                    continue
                if task.exit_code:
                    task.last_lines = self._last_lines(name)
                    if not self._may_restart(name):
                        return task.exit_code
                    runs[self._begin(name)] = name
                self._changed(self.tasks)
            if self._is_done():
                return 0
        return self._replace(lost)

    def _begin(self, name: str) -> Any:
        job, _, index = name.partition(":")
        cluster: dict[str, list[str]] = {}
        for each, task in self.tasks.items():
            cluster.setdefault(each.partition(":")[0], []).append(task.address)
        variables = {
            **self._job.variables,
            CLUSTER: json.dumps(cluster),
            JOB: job,
            TASK: index,
            TOKEN: self._token,
        }
        words = ["task", "--ps", str(self._job.ps)]
        if self._job.cluster_via:
            words += ["--cluster-via", self._job.cluster_via]
        words += [self._job.script, "--", *self._job.arguments]
        self.tasks[name].exit_code = None
        return self._actors[name].run.remote(words, variables)

    def _is_done(self) -> bool:
        return all(
            task.exit_code == 0 for name, task in self.tasks.items() if not name.startswith("ps:")
        )

    def _may_restart(self, name: str) -> bool:
        self.tasks[name].restarts += 1
        return self.tasks[name].restarts <= self._job.max_restarts

    def _learn_addresses(self) -> bool:
        """Asks every actor where it is; False if some are lost meanwhile, and were given up."""
        lost = set()
        asked = {name: actor.place.remote() for name, actor in self._actors.items()}
        for name, ref in asked.items():
            try:
                address, node = self._ray.get(ref, timeout=_PLACE_SECONDS)
            except self._ray.exceptions.GetTimeoutError:
                raise RayError(
                    f"Ray found no room for {name} in {_PLACE_SECONDS:.0f} s, after its node was "
                    "lost; the checkpoint is kept"
                ) from None
            except self._ray.exceptions.RayError as error:
                # Its bundle may still be of the node that was lost: Ray takes a while to move it.
                lost.add(name)
                if time.monotonic() > self._place_by:
                    raise RayError(f"{name} does not start: {_first_line(error)}") from None
                continue
            self.tasks[name].address, self.tasks[name].node = address, node
        for name in lost:
            del self._actors[name]
        if lost:
            time.sleep(_POLL_SECONDS)
        return not lost

    def _replace(self, lost: set[str]) -> int | None:
        """Gives up the actors that are lost, and stops the other tasks: addresses will change."""
        for name in lost:
            del self._actors[name]
            self.tasks[name].last_lines = [f"its node {self.tasks[name].node} is lost"]
            if not self._may_restart(name):
                return 1
        self._place_by = time.monotonic() + _PLACE_SECONDS
        stops = [actor.stop.remote() for actor in self._actors.values()]
        self._ray.wait(stops, num_returns=len(stops), timeout=15.0)
        return None

    def _last_lines(self, name: str) -> list[str]:
        try:
            found: list[str] = self._ray.get(self._actors[name].last_lines.remote(), timeout=5.0)
            return found
        except self._ray.exceptions.RayError:
            return []


class _Actor(RayTask):
    """A RayTask that knows from Ray where it is."""

    def __init__(self, name: str) -> None:
        ray = importlib.import_module("ray")
        super().__init__(name, ray.util.get_node_ip_address())

    def place(self) -> tuple[str, str]:
        """The task's address, and its node."""
        ray = importlib.import_module("ray")
        return self.address(), ray.get_runtime_context().get_node_id()


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]


def handed_on(variables: Mapping[str, str]) -> dict[str, str]:
    """What tasks get of this process' environment: settings of Millrace, but no keys."""
    return {
        name: value
        for name, value in variables.items()
        if name.startswith("MILLRACE_") and name not in (TOKEN, TOKEN_FILE)
    }


def script_of(script: str, runtime_env: Mapping[str, Any] | None) -> str:
    """The program as the nodes see it: as it stands in a folder that Ray ships, else its path.

    Raises:
      ValueError: There is no such file here.
    """
    if not Path(script).is_file():
        raise ValueError(f"there is no file {script}")
    folder = (runtime_env or {}).get("working_dir")
    if not folder:
        return str(Path(script).absolute())
    try:
        return str(Path(script).absolute().relative_to(Path(folder).absolute()))
    except ValueError:
        raise ValueError(f"{script} is not in {folder}, the folder that Ray ships") from None
