"""Programs of a stock TensorFlow, and Millrace clusters in processes of their own.

The environment variable MILLRACE_TENSORFLOW_PYTHON names the interpreter that has TensorFlow;
`make interop` sets it.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from millrace.platform.ports import HeldPorts

_FOLDER = Path(__file__).parent
_VARIABLE = "MILLRACE_TENSORFLOW_PYTHON"
_START_SECONDS = 180
_PROGRAM_SECONDS = 300


@pytest.fixture(scope="session")
def tensorflow_python() -> str:
    """The interpreter that has TensorFlow."""
    found = os.environ.get(_VARIABLE, "")
    if not found:
        pytest.fail(
            f"{_VARIABLE} is not set: name a Python interpreter that has tensorflow, or say "
            "`make interop`, which makes one.",
            pytrace=False,
        )
    if not os.access(found, os.X_OK):
        pytest.fail(f"{_VARIABLE} is {found!r}, which cannot be run.", pytrace=False)
    return str(Path(found).absolute())


def tensorflow_environment() -> dict[str, str]:
    """Environment variables for a program of TensorFlow's."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    # Its XLA may not know the flags of ours.
    for name in ("PYTHONPATH", "XLA_FLAGS", "http_proxy", "https_proxy", "grpc_proxy"):
        environment.pop(name, None)
    return environment


@pytest.fixture(scope="session")
def run_tensorflow(tensorflow_python: str) -> Callable[..., Any]:
    """Runs a script of `programs` with TensorFlow; what it prints last is JSON."""

    def run(script: str, *arguments: str) -> Any:
        done = subprocess.run(
            [tensorflow_python, str(_FOLDER / "programs" / script), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PROGRAM_SECONDS,
            env=tensorflow_environment(),
        )
        if done.returncode:
            pytest.fail(
                f"{script} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}",
                pytrace=False,
            )
        return json.loads(done.stdout.splitlines()[-1])

    return run


class Cluster:
    """Tasks of Millrace, each a process.

    Attributes:
      addresses: host:port of the tasks, by job.
    """

    def __init__(
        self, sizes: dict[str, int], log_folder: Path, tensorflow: tuple[str, ...] = ()
    ) -> None:
        """Chooses ports.

        Args:
          sizes: How many tasks each job has.
          log_folder: Where their logs go.
          tensorflow: An interpreter that has TensorFlow, and the job whose task 0 is TensorFlow's
            own; nothing when all tasks are Millrace's.
        """
        self._held = {job: HeldPorts(size) for job, size in sizes.items()}
        self.addresses = {job: held.addresses for job, held in self._held.items()}
        self._log_folder = log_folder
        self._tensorflow = tensorflow
        self._tasks: list[tuple[subprocess.Popen[str], Path]] = []

    def start(self) -> None:
        """Starts all tasks and waits until they serve."""
        for job, addresses in self.addresses.items():
            for index in range(len(addresses)):
                log = self._log_folder / f"{job}-{index}.log"
                python, script = sys.executable, _FOLDER / "serve_task.py"
                environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
                if index == 0 and job in self._tensorflow[1:]:
                    python, script = self._tensorflow[0], _FOLDER / "programs" / "serve_task.py"
                    environment = tensorflow_environment()
                with log.open("w") as errors:
                    process = subprocess.Popen(
                        [
                            python,
                            str(script),
                            json.dumps(self.addresses),
                            job,
                            str(index),
                        ],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=errors,
                        text=True,
                        env=environment,
                    )
                self._tasks.append((process, log))
        for process, log in self._tasks:
            assert process.stdout is not None
            if not process.stdout.readline().startswith("serving"):
                pytest.fail(f"A task did not start:\n{log.read_text()}", pytrace=False)

    def stop(self) -> None:
        """Ends all tasks."""
        for process, _ in self._tasks:
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        for process, _ in self._tasks:
            try:
                process.wait(_START_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise
            finally:
                assert process.stdout is not None
                process.stdout.close()
        for held in self._held.values():
            held.close()

    def logs(self) -> str:
        """What the tasks have said."""
        return "\n".join(f"{log.name}:\n{log.read_text()}" for _, log in self._tasks)

    @property
    def target(self) -> str:
        """The first worker's session target."""
        return f"grpc://{self.addresses['worker'][0]}"


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two ps and two workers."""
    made = Cluster({"ps": 2, "worker": 2}, tmp_path_factory.mktemp("tasks"))
    try:
        made.start()
        yield made
    finally:
        made.stop()
