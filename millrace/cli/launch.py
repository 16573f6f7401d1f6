"""`millrace launch`: a cluster, from one command: on this machine, or over ssh on several."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from millrace.cli import (
    launch_on_kubernetes,
    launch_on_ray,
    launch_on_slurm,
    program_source,
    security,
)
from millrace.cli.job import (
    ENVIRONMENT,
    WAYS,
    Task,
    is_estimator_program,
    last_step_of,
    tasks_of,
    uses_tensorflow,
    way_of,
)
from millrace.cli.job_view import watching
from millrace.cli.live_page import LivePage, add_page_argument
from millrace.cli.replicas import MAX_RESTARTS, Replicas, is_replicated, with_standbys
from millrace.cli.ssh import CANNOT_CONNECT, host_of, over_ssh
from millrace.cli.step_watch import StepWatch
from millrace.cli.task_process import TaskProcess, stop_all, without_time
from millrace.cli.viewer import Viewer
from millrace.core import errors
from millrace.data.event_file import FOLDERS_FILE, FOLDERS_NOTED_IN
from millrace.launchers.kubernetes_api import KubernetesError
from millrace.launchers.ray_job import RayError
from millrace.launchers.slurm import SlurmError
from millrace.observe import job_record, last_status
from millrace.observe.job_record import ENDED, JobRecord, TaskRecord
from millrace.observe.observation import METRICS_PORT
from millrace.platform.ports import HeldPorts
from millrace.platform.training_end import TRAINING_IS_OVER
from millrace.rpc.security import TOKEN
from millrace.rpc.service import Connection
from millrace.training.election.register import VARIABLE, Address

SUMMARY = "start parameter servers and workers, and watch them"
INTERRUPTED = 130
TERMINATED = 143
USAGE_ERROR = 2
#: Workers end this soon after a server that they told of the end of the job.
_LEAVING_SECONDS = 10.0
#: An evaluator on another machine has this long after the workers' end.
_LAST_EVALUATION_SECONDS = 60.0
_POLL_SECONDS = 0.2
#: Who starts tasks, besides this process itself.
_SCHEDULERS = {
    "slurm": launch_on_slurm.run,
    "ray": launch_on_ray.run,
    "kubernetes": launch_on_kubernetes.run,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How many tasks, which program, how it is told its cluster."""
    parser.add_argument("--ps", type=int, default=1, help="parameter servers (1)")
    parser.add_argument("--workers", type=int, default=2, help="workers, the chief among them (2)")
    parser.add_argument(
        "--evaluator",
        action="store_true",
        help="a task that evaluates every new checkpoint (programs of tf.estimator)",
    )
    parser.add_argument("--max-restarts", type=int, default=0, help="of one task (0)")
    parser.add_argument(
        "--standby",
        action="store_true",
        help="a second process for each parameter server, which has all that it has acknowledged "
        "and takes its place when it is gone; a process that has ended is started again",
    )
    parser.add_argument(
        "--elect",
        nargs="?",
        const="builtin",
        metavar="ADDRESS",
        help="let the workers elect their chief, instead of worker 0: with the built-in lease, or "
        "--elect=zookeeper://host:port/path, --elect=etcd://host:port/path",
    )
    parser.add_argument("--name", help="what the job is called (the program's name and the time)")
    parser.add_argument("--logs", type=Path, help="folder of the logs (millrace-logs/<name>)")
    parser.add_argument(
        "--cluster-via",
        choices=WAYS,
        help="how the program learns its cluster: `flags` (--ps_hosts, --worker_hosts, --job_name, "
        "--task_index), `TF_CONFIG`, or `servers` (it is a client of servers that run already); "
        "found out from its source by default",
    )
    parser.add_argument(
        "--tensorboard", action="store_true", help="show the job's event files in TensorBoard"
    )
    parser.add_argument(
        "--logdir", type=Path, help="what TensorBoard shows (the folders that the tasks write to)"
    )
    add_page_argument(parser)
    parser.add_argument(
        "--on",
        choices=("local", *_SCHEDULERS),
        default="local",
        help="who starts the tasks (local)",
    )
    parser.add_argument(
        "--image", default="", help="with --on kubernetes: has Millrace and the program"
    )
    parser.add_argument("--time", help="with --on slurm: the limit, as 1:00:00")
    parser.add_argument(
        "--scheduler-option",
        action="append",
        default=[],
        metavar="OPTION",
        help="with --on slurm: an option for sbatch, as --scheduler-option=--partition=gpu, or "
        "for one job's nodes alone, as worker:--gres=gpu:1; with "
        "--on ray: strategy=SPREAD, worker=CPU=2+GPU=1, working_dir=FOLDER; with --on kubernetes: "
        "an option of `millrace manifest`, as volume=CLAIM:PATH",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="with --on slurm or kubernetes: print what would be submitted",
    )
    parser.add_argument(
        "--detach",
        action="store_true",
        help="with --on slurm or kubernetes: do not wait for the end",
    )
    parser.add_argument("--hosts", help="print the commands for these machines (a,b,c) instead")
    parser.add_argument("--port", type=int, default=2222, help="first port with --hosts (2222)")
    parser.add_argument(
        "--ssh", action="store_true", help="with --hosts: run the commands there, over ssh"
    )
    parser.add_argument(
        "--ssh-command", default="ssh", help="how ssh is called, with its options (ssh)"
    )
    parser.add_argument(
        "--remote-python",
        default=sys.executable,
        help="the interpreter on these machines (the same path as here)",
    )
    parser.add_argument(
        "--remote-folder",
        default=os.getcwd(),
        help="where the program is on these machines (the same folder as here)",
    )
    parser.add_argument(
        "--metrics-port",
        type=int,
        help="serve /metrics, /healthz and /readyz from this port on, a port for each task of a "
        f"machine ({METRICS_PORT} of each)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line, no table")
    parser.add_argument(
        "--tls",
        action="store_true",
        help="make certificates for the job, and throw them away at its end; with --hosts they "
        "are kept",
    )
    parser.add_argument(
        "--certificates",
        type=Path,
        default=Path("millrace-certificates"),
        metavar="FOLDER",
        help="where --hosts with --tls puts them (millrace-certificates)",
    )
    security.add_arguments(parser)
    parser.add_argument("script", help="the program")
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, help="its arguments, after --", default=[]
    )


def run(arguments: argparse.Namespace) -> int:
    """Runs the job to its end."""
    try:
        if arguments.on != "local":
            return _on_scheduler(arguments)
        # The ports are held to the end: a task that is restarted needs its own again.
        with contextlib.ExitStack() as held:
            tasks, given = _job_of(arguments, held)
            if arguments.hosts and not arguments.ssh:
                _print_commands(tasks, arguments.hosts.split(","))
                return 0
            return _run_tasks(tasks, last_step_of(given), arguments)
    except (ValueError, OSError, SlurmError, RayError, KubernetesError) as error:
        print(f"millrace launch: {error}", file=sys.stderr)
        return USAGE_ERROR


def _on_scheduler(arguments: argparse.Namespace) -> int:
    security.set_environment(arguments)
    _check(arguments)
    on = arguments.on
    if arguments.hosts or arguments.tls:
        raise ValueError(
            f"{on.capitalize()} chooses the machines: --hosts and --tls are not for --on {on}"
        )
    given = list(arguments.arguments)
    return _SCHEDULERS[on](arguments, given[1:] if given[:1] == ["--"] else given)


def _check(arguments: argparse.Namespace) -> None:
    """Looks at what every way to start a job needs.

    Raises:
      ValueError: No job can be made of these arguments.
    """
    # On Kubernetes the program is in the image.
    if arguments.on != "kubernetes" and not Path(arguments.script).is_file():
        raise ValueError(f"there is no file {arguments.script}")
    if arguments.ps < 0:
        raise ValueError(f"--ps {arguments.ps}: a job has no parameter servers, or more")
    if arguments.workers < 1:
        raise ValueError(f"--workers {arguments.workers}: a job has at least one worker")
    if arguments.max_restarts < 0:
        raise ValueError(f"--max-restarts {arguments.max_restarts}: say 0 or more")
    if not 0 < arguments.port < 65536:
        raise ValueError(f"--port {arguments.port}: ports are 1 to 65535")
    if arguments.standby and (arguments.hosts or arguments.on != "local"):
        raise ValueError("--standby is for jobs on this machine")
    if arguments.standby and not arguments.ps:
        raise ValueError("--standby is for parameter servers: this job has none (--ps 0)")
    if arguments.name is not None and not re.fullmatch(r"[\w][\w.-]*", arguments.name):
        raise ValueError(f"--name {arguments.name}: letters, digits, `.`, `_` and `-` make a name")


def _job_of(
    arguments: argparse.Namespace, held: contextlib.ExitStack
) -> tuple[list[Task], list[str]]:
    """The tasks, and the program's own arguments; their ports on this machine go to `held`.

    Raises:
      ValueError: No job can be made of these arguments.
    """
    script = Path(arguments.script)
    security.set_environment(arguments)
    _check(arguments)
    if arguments.ssh and not arguments.hosts:
        raise ValueError("--ssh needs the machines: --hosts a,b,c")
    source = program_source.text_of(script)
    way = arguments.cluster_via or way_of(source)
    if way is None and not uses_tensorflow(source):
        raise ValueError(
            f"{script} is no TensorFlow program: it imports neither tensorflow nor millrace (if a "
            f"module of its own does, say --cluster-via {'|'.join(WAYS)})"
        )
    if way is None:
        raise ValueError(
            f"{script} does not say how it learns its cluster (neither it nor a module of its "
            "own has a flag ps_hosts or speaks of TF_CONFIG); say --cluster-via flags if it takes "
            "--ps_hosts, --worker_hosts, --job_name and --task_index, --cluster-via TF_CONFIG if "
            "it reads that variable, --cluster-via servers if it is a client of servers that "
            "launch shall start"
        )
    given = list(arguments.arguments)
    given = given[1:] if given[:1] == ["--"] else given
    counts = {"ps": arguments.ps, "worker": arguments.workers}
    if way == ENVIRONMENT and (arguments.evaluator or is_estimator_program(source)):
        counts = {"ps": arguments.ps, "chief": 1, "worker": arguments.workers - 1}
    elif arguments.evaluator:
        raise ValueError(
            f"--evaluator is for programs of tf.estimator, which read TF_CONFIG; {script} learns "
            f"its cluster by {way}"
        )
    if not arguments.hosts:
        cluster = _held_addresses(counts, held)
        tasks = tasks_of(str(script), source, given, cluster, way, arguments.evaluator)
        if arguments.standby:
            tasks = with_standbys(tasks, held)
        tasks = _with_metrics(tasks, arguments.metrics_port)
        _refuse_taken_ports(tasks)
        return _electing(tasks, arguments.elect), given
    hosts = arguments.hosts.split(",")
    if not all(hosts):
        raise ValueError(f"--hosts {arguments.hosts} has an empty name in it")
    cluster = _addresses_on([host_of(host) for host in hosts], arguments.port, counts)
    tasks = tasks_of(str(script), source, given, cluster, way, arguments.evaluator)
    tasks, advice = security.prepare_for_hosts(
        _electing(_with_metrics(tasks, arguments.metrics_port), arguments.elect),
        arguments.certificates if arguments.tls else None,
        watched=arguments.ssh,
    )
    for line in advice:
        print(line, file=sys.stderr if arguments.ssh else sys.stdout)
    return (_over_ssh(tasks, hosts, arguments) if arguments.ssh else tasks), given


def _with_metrics(tasks: list[Task], port: int | None) -> list[Task]:
    """The tasks, each of which tells its metrics on the next port of its machine."""
    if port is None:
        return tasks
    if not 0 <= port < 65536 - len(tasks):
        raise ValueError(f"--metrics-port {port}: ports are 1 to 65535, and each task needs one")
    used: dict[str, int] = {}
    found = []
    for task in tasks:
        host = task.address.rpartition(":")[0]
        number = port + used.get(host, 0) if port else 0
        used[host] = used.get(host, 0) + 1
        variables = {METRICS_PORT: str(number)} if task.address else {}
        found.append(task._replace(environment={**task.environment, **variables}))
    return found


def _refuse_taken_ports(tasks: list[Task]) -> None:
    """Says before anything starts that another process has a port for metrics."""
    for task in tasks:
        port = int(task.environment.get(METRICS_PORT, "0"))
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as error:
                raise ValueError(
                    f"--metrics-port: {task.name} cannot serve metrics at port {port} "
                    f"({error.strerror}); choose another, or 0 for any that is free"
                ) from None


def _electing(tasks: list[Task], address: str | None) -> list[Task]:
    """The tasks, of which those that run steps elect their chief, if there is an address."""
    if address is None:
        return tasks
    Address.parse(address)
    return [
        task
        if task.serves or task.evaluates
        else task._replace(environment={**task.environment, VARIABLE: address})
        for task in tasks
    ]


def _run_tasks(tasks: list[Task], last_step: int | None, arguments: argparse.Namespace) -> int:
    name = arguments.name or job_record.name_for(arguments.script)
    folder = arguments.logs or Path("millrace-logs") / name
    folder.mkdir(parents=True, exist_ok=True)
    if not arguments.ssh:
        tasks = [_noting_the_end(task, folder) for task in tasks]
        tasks = _noting_event_folders(tasks, folder)
    viewer = Viewer(folder, arguments.logdir) if arguments.tensorboard else None
    marker = folder.resolve() / "training-is-over"
    marker.unlink(missing_ok=True)  # an earlier job's, with --logs
    tasks = [
        t._replace(environment={**t.environment, TRAINING_IS_OVER: str(marker)})
        if t.evaluates and not t.remote
        else t
        for t in tasks
    ]
    with security.certified(tasks, arguments.tls and not arguments.hosts) as tasks:
        processes = [TaskProcess(task, folder) for task in tasks]
        record = JobRecord(
            name,
            str(folder.absolute()),
            "ssh" if arguments.ssh else "local",
            [arguments.script, *arguments.arguments],
            pid=os.getpid(),
            variables={k: os.environ[k] for k in security.FILES if os.environ.get(k)},
            last_step=last_step,
        )
        page = LivePage(record, arguments.dashboard) if arguments.dashboard else None
        job = Job(processes, arguments.max_restarts, last_step, viewer, marker, record, page)
        if arguments.standby:
            job.replicas = Replicas(processes)
        with watching(arguments.json, folder, name) as show:
            code = job.run(show)
    if code in (INTERRUPTED, TERMINATED):
        return code
    if job.failed is not None:
        _explain_failure(job.failed)
    return code


def _noting_the_end(task: Task, folder: Path) -> Task:
    """The task, whose server writes down what it knew when it was stopped."""
    path = (folder / f".{task.name}.last.json").absolute()
    path.unlink(missing_ok=True)
    return task._replace(environment={**task.environment, last_status.FILE: str(path)})


def _noting_event_folders(tasks: list[Task], folder: Path) -> list[Task]:
    """The tasks, which write down where they put event files, for TensorBoard and the page."""
    notes = folder.absolute() / FOLDERS_FILE
    notes.unlink(missing_ok=True)  # an earlier job's, with --logs
    noted = {FOLDERS_NOTED_IN: str(notes)}
    return [task._replace(environment={**task.environment, **noted}) for task in tasks]


def _held_addresses(counts: dict[str, int], held: contextlib.ExitStack) -> dict[str, list[str]]:
    """Addresses on this machine, whose ports `held` keeps free for the tasks."""
    return {
        job: held.enter_context(HeldPorts(count)).addresses
        for job, count in counts.items()
        if count
    }


def _addresses_on(hosts: list[str], port: int, counts: dict[str, int]) -> dict[str, list[str]]:
    """Addresses on machines, which take turns; the ports of each count up from `port`."""
    ports = dict.fromkeys(hosts, port)
    cluster: dict[str, list[str]] = {}
    for job, count in counts.items():
        for i in range(count):
            host = hosts[i % len(hosts)]
            cluster.setdefault(job, []).append(f"{host}:{ports[host]}")
            ports[host] += 1
    return cluster


def _machine_of(task: Task, hosts: list[str]) -> str:
    """Where a task runs; a client that has no address takes its turn like the others."""
    if not task.address:
        return hosts[int(task.name.rpartition("-")[2]) % len(hosts)]
    name = task.address.rpartition(":")[0]
    return next(host for host in hosts if host_of(host) == name)


def _print_commands(tasks: list[Task], hosts: list[str]) -> None:
    for task in tasks:
        words = ["millrace", *task.command[4:]]
        variables = [f"{k}={shlex.quote(v)}" for k, v in task.environment.items()]
        print(f"# {task.name} on {_machine_of(task, hosts)}")
        print(" ".join([*variables, shlex.join(words)]))


def _over_ssh(tasks: list[Task], hosts: list[str], arguments: argparse.Namespace) -> list[Task]:
    ssh = shlex.split(arguments.ssh_command)
    python, folder = arguments.remote_python, arguments.remote_folder
    if os.environ.get(TOKEN):
        raise ValueError(
            f"everybody on these machines could read {TOKEN} in the list of processes: put the "
            "token into a file on each of them, and say --token-file"
        )
    # Keys and other settings hold for the job, not for this machine.
    variables = {k: v for k, v in os.environ.items() if k.startswith("MILLRACE_")}
    if python == sys.executable and (path := os.environ.get("PYTHONPATH")):
        variables["PYTHONPATH"] = path  # the machines are laid out as this one is
    tasks = [t._replace(environment={**variables, **t.environment}) for t in tasks]
    return [over_ssh(task, _machine_of(task, hosts), ssh, python, folder) for task in tasks]


class _Terminated(Exception):
    """SIGTERM has arrived."""


def _terminate(number: int, frame: Any) -> None:
    raise _Terminated


class Job:
    """All processes of a job, and what is known of its progress."""

    def __init__(
        self,
        processes: list[TaskProcess],
        max_restarts: int,
        last_step: int | None,
        viewer: Viewer | None = None,
        marker: Path | None = None,
        record: JobRecord | None = None,
        page: LivePage | None = None,
    ) -> None:
        """Makes a job of processes.

        Args:
          processes: All of them.
          max_restarts: How often one may be restarted.
          last_step: The step at which training ends, if it is known.
          viewer: TensorBoard.
          marker: A file that is made when all workers have ended, for the evaluator.
          record: Where it is written down how the job stands.
          page: The live page.
        """
        self.processes = processes
        self.page = page
        self._noted_states: list[str] = []
        self._record = record
        self.last_step = last_step
        self.watch = StepWatch({p.task.name: p.task.address for p in processes if p.task.address})
        self.failed: TaskProcess | None = None
        self.code: int = 1
        self._max_restarts = max_restarts
        self.viewer = viewer
        #: When servers were first seen to have ended.
        self._ended_at: dict[str, float] = {}
        self._marker = marker
        #: When the last worker was seen to have ended.
        self._trained_at: float | None = None
        #: Who keeps the views of tasks that have standbys, if any have.
        self.replicas: Replicas | None = None

    @property
    def workers(self) -> list[TaskProcess]:
        """The processes that train: when they end, servers have nothing to do."""
        return [p for p in self.processes if not p.task.serves and not p.task.evaluates]

    def _is_over(self) -> bool:
        """Whether the workers have ended, and the evaluator has seen their last checkpoint."""
        if not all(p.code is not None for p in self.workers):
            self._trained_at = None
            return False
        if self._trained_at is None:
            self._trained_at = time.monotonic()
            if self._marker is not None:
                self._marker.touch()
        waiting = [p for p in self.processes if p.task.evaluates and p.code is None]
        # One on another machine cannot be told: it has some time for the last checkpoint.
        return not waiting or (
            all(p.task.remote for p in waiting)
            and time.monotonic() > self._trained_at + _LAST_EVALUATION_SECONDS
        )

    def run(self, show: Callable[[Job], None]) -> int:
        """Starts everything, waits for the workers, stops the rest; the exit code."""
        signal.signal(signal.SIGTERM, _terminate)
        try:
            if self.page is not None:
                self.page.start()  # first: a place that it cannot have ends the job here
            if self.viewer is not None:
                self.viewer.start()
            for process in self.processes:
                self._start(process)
            self._note()
            self.watch.start()
            while True:
                # First: of what is restarted here the job waits for the end, too.
                self._restart_the_dead()
                if self.failed is not None or self._is_over():
                    break
                self.watch.ended_well(p.task.address for p in self.workers if p.code == 0)
                self._note_changes()
                self._show(show)
                time.sleep(_POLL_SECONDS)
            if self.failed is None:
                self._dismiss_servers()
            else:
                stop_all(self.processes)
            self.watch.end(self._last_step_told())
            self._show(show)
            self._keep_viewer(show)
            self.code = 0 if self.failed is None else _shell_code(self.failed.code)
        except KeyboardInterrupt:
            self.code = INTERRUPTED
        except _Terminated:
            self.code = TERMINATED
        finally:
            # A second Ctrl-C must not leave processes behind.
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
            self.watch.stop()
            if self.viewer is not None:
                self.viewer.stop()
            if self.page is not None:
                self.page.stop()
            stop_all([p for p in self.processes if p.started])
            if self.replicas is not None:
                self.replicas.close()
            if all(p.started for p in self.processes):
                self.watch.end(self._last_step_told())
                self._show(show)
                self._note()
        return self.code

    def _note_changes(self) -> None:
        if [p.state for p in self.processes] != self._noted_states:
            self._note()

    def _note(self) -> None:
        """Writes down how the job stands, for commands that look at it."""
        record = self._record
        if record is None:
            return
        self._noted_states = [p.state for p in self.processes]
        record.tasks = {
            p.task.name: TaskRecord(
                p.task.address,
                p.pid,
                p.task.host,
                str(p.log.absolute()),
                p.task.serves,
                state,
                p.restarts,
            )
            for p, state in zip(self.processes, self._noted_states, strict=True)
        }
        if all(p.code is not None for p in self.processes):
            record.state, record.exit_code = ENDED, self.code
            record.global_step = self.watch.global_step
        with contextlib.suppress(errors.OpError, OSError):
            record.save()

    def _last_step_told(self) -> int | None:
        """The global step that a server knew when it was stopped."""
        steps = [
            last_status.read(Path(path)).get("global_step")
            for p in self.processes
            if (path := p.task.environment.get(last_status.FILE))
        ]
        return max((step for step in steps if step is not None), default=None)

    def _show(self, show: Callable[[Job], None]) -> None:
        if self.viewer is not None:
            self.viewer.follow()
        show(self)

    def _keep_viewer(self, show: Callable[[Job], None]) -> None:
        """The job is over: a user at a terminal looks at what it shows until Ctrl-C."""
        if not sys.stdout.isatty() or (self.viewer is None and self.page is None):
            return
        self.watch.stop()
        self._note_changes()
        with contextlib.suppress(KeyboardInterrupt):
            while self.page is not None or (self.viewer and self.viewer.complaint is None):
                if self.viewer is not None:
                    self.viewer.kept = True
                if self.page is not None:
                    self.page.kept = True
                self._show(show)
                time.sleep(_POLL_SECONDS)

    def _restart_the_dead(self) -> None:
        for process in self.processes:
            code = process.code
            if code is None or (code == 0 and not self._left_workers_alone(process)):
                continue
            allowed = self._max_restarts
            if self.replicas is not None and is_replicated(process.task):
                if not self.replicas.may_start_again(process):
                    continue
                allowed = MAX_RESTARTS
            if process.restarts < allowed:
                process.restarts += 1
                self._ended_at.pop(process.task.name, None)
                self._start(process)
                self._note()
            else:
                self.failed = self.failed or process

    def _start(self, process: TaskProcess) -> None:
        if self.replicas is not None:
            self.replicas.prepare(process)
        process.start()

    def _left_workers_alone(self, process: TaskProcess) -> bool:
        """Whether a process is a server that has ended, and the workers have not followed it.

        A server that ends well was told by the workers that the job is over, so they end too.
        """
        if not process.task.serves or all(p.code is not None for p in self.workers):
            return False
        ended = self._ended_at.setdefault(process.task.name, time.monotonic())
        return time.monotonic() > ended + _LEAVING_SECONDS

    def _dismiss_servers(self) -> None:
        """The workers are done: lets the servers end as they would by themselves."""
        for process in self.processes:
            if process.code is None and process.task.address:
                process.stopping = True
                connection = Connection(process.task.address)
                with contextlib.suppress(errors.OpError):
                    connection.stop_server(timeout=2.0)
                connection.close()
        deadline = time.monotonic() + 5.0
        for process in self.processes:
            process.wait(deadline - time.monotonic())


def _shell_code(code: int | None) -> int:
    """An exit code as a shell tells it: 128 and the number of the signal."""
    return (code or 1) if (code or 1) > 0 else 128 - (code or 1)


def _explain_failure(process: TaskProcess) -> None:
    name = process.task.name
    if process.task.remote and process.code == CANNOT_CONNECT:
        said = process.last_line() or "it said nothing"
        print(f"millrace launch: ssh could not start {name}: {said}", file=sys.stderr)
        return
    if process.task.serves and process.code == 0:
        found = f"{name} ended before the workers did (a parameter server waits in server.join())"
    else:
        found = f"{name} ended with {process.code}"
    print(f"millrace launch: {found}; its log ends:", file=sys.stderr)
    for line in process.tail(12):
        print(f"  {without_time(line)}", file=sys.stderr)
    print(f"  (all of it: {process.log})", file=sys.stderr)
