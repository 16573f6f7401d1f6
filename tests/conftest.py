"""What all tests share: calls that wait in the background, and how programs are compiled.

Most of the time of the suite goes into XLA's compiler, and most of its programs are compiled for
several tests: so they are compiled quickly rather than well, and once for all processes. Speed is
measured in benchmarks/, without any of this.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

_CACHE = Path(__file__).parents[1] / ".cache" / "xla"

_QUICKLY = (
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    # The newer emitters of fused loops take as long as all the rest of the compiler.
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_cpu_parallel_codegen_split_count=1",
)


def _known(flags: tuple[str, ...]) -> str:
    """Those of XLA's flags that this jaxlib has: with any other, XLA ends the process.

    Only XLA itself can tell (the names of flags that are gone may still stand in the library), so
    a process is given them to end; its message names one flag that it does not know.
    """
    parse = "from jaxlib import xla_client; xla_client.CompileOptions()"
    left = list(flags)
    while left:
        environment = {**os.environ, "XLA_FLAGS": " ".join(left)}
        tried = subprocess.run(
            [sys.executable, "-c", parse], env=environment, capture_output=True, text=True
        )
        if tried.returncode == 0:
            break
        unknown = [flag for flag in left if flag in tried.stderr]
        assert unknown, f"jaxlib does not take XLA_FLAGS, and does not say which:\n{tried.stderr}"
        left = [flag for flag in left if flag not in unknown]
    return " ".join(left)


@pytest.fixture(autouse=True, scope="session")
def _jobs_of_tests_are_not_the_users(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Records of jobs that tests launch are found by tests only."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(autouse=True)
def _verbosity_is_a_tests_own() -> Iterator[None]:
    """A program that a test runs may set the level of the log, which the next one reads."""
    logger = logging.getLogger("millrace")
    before = logger.level
    yield
    logger.setLevel(before)


@pytest.fixture(autouse=True, scope="session")
def _tapes_run_at_once_on_tier_0(pytestconfig: pytest.Config) -> None:
    """Most tests run a stage once: who tries tier 0 wants to see its code, not its first run."""
    if pytestconfig.getoption("--compile") == "never":
        from millrace.runtime import host_run

        host_run.RUNS_WITHOUT_TAPE = 0


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds an option that chooses the tier that all tests run on."""
    parser.addoption(
        "--compile",
        default=os.environ.get("MILLRACE_COMPILE", "now"),
        choices=("now", "never", "background"),
        help="when stages are compiled: in front of the step, so that what tests count is the "
        "same each time (the default), never (tier 0), or in the background",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Tells this process, and those that tests start, when to compile."""
    os.environ["MILLRACE_COMPILE"] = config.getoption("--compile")


if "XLA_FLAGS" not in os.environ:  # Processes that tests start inherit what was found.
    os.environ["XLA_FLAGS"] = _known(_QUICKLY)
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

# On busy cores a process that is well may be silent for the two seconds after which others would
# give it up. Tests of processes that are not well say so.
os.environ.setdefault("MILLRACE_HEARTBEAT_SECONDS", "8")

# A shell that starts something in the background makes it deaf to Ctrl-C, and with the tests the
# processes that they interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SECONDS = 60.0

#: Tests that wait for processes, the longest ones first.
_EARLY = ("process", "docs", "contract", "cluster")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts tests of real processes first.

    They wait for much and are few: begun early, and by one of the workers that share the tests,
    they leave the cores to the others; begun late, everybody waits for them at the end.
    """

    def rank(item: pytest.Item) -> int:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        return _EARLY.index(folder) if folder in _EARLY else len(_EARLY)

    items.sort(key=rank)


class BackgroundCall:
    """A call in a thread of its own; `result` waits for it and returns or raises its outcome."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._value: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._value = self._call()
        except BaseException as error:
            self._error = error

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def result(self) -> Any:
        self._thread.join(SECONDS)
        assert not self._thread.is_alive(), "the background call did not end"
        if self._error is not None:
            raise self._error
        return self._value


@pytest.fixture
def background() -> Iterator[Callable[[Callable[[], Any]], BackgroundCall]]:
    """Starts calls in threads, and fails the test if one of them does not end."""
    calls: list[BackgroundCall] = []

    def start(call: Callable[[], Any]) -> BackgroundCall:
        calls.append(BackgroundCall(call))
        return calls[-1]

    yield start
    for call in calls:
        call._thread.join(SECONDS)
    assert not any(call.is_running for call in calls), "a background call did not end"


@pytest.fixture
def until() -> Callable[..., None]:
    """Waits, with a deadline, until a condition holds."""

    def wait(
        condition: Callable[[], Any], what: str = "the condition did not come to hold"
    ) -> None:
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < deadline, what
            time.sleep(0.002)

    return wait


def _is_compiling(thread: threading.Thread) -> bool:
    """Whether a step's thread is in the compiler, or on its way there."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None and thread.name == "millrace step":
        if "compile" in frame.f_code.co_filename or "compile" in frame.f_code.co_name:
            return True
        frame = frame.f_back
    return False


@pytest.fixture
def compiled(until: Callable[..., None]) -> Iterator[list[str]]:
    """The names of the programs that XLA has compiled in this process since the test began.

    Servers of earlier tests may still compile ahead when they have stopped: they are waited for.
    """
    from jax import monitoring

    until(lambda: not any(map(_is_compiling, threading.enumerate())))
    names: list[str] = []

    def note(event: str, _: float, **details: Any) -> None:
        if event.endswith("/backend_compile_duration"):
            names.append(details.get("fun_name", "?"))

    monitoring.register_event_duration_secs_listener(note)
    yield names
    monitoring.unregister_event_duration_listener(note)


@pytest.fixture
def without_pass(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Leaves a pass out of both tables."""
    from millrace.passes import pipeline

    def leave_out(left_out: Any) -> None:
        for table in ("CLUSTER", "TASK"):
            kept = tuple(each for each in getattr(pipeline, table) if each is not left_out)
            monkeypatch.setattr(pipeline, table, kept)

    return leave_out


@pytest.fixture
def left_by() -> Callable[[Callable[[], Any], int], Counter[str]]:
    """Tells what so many calls leave to the garbage collector: how many objects of which types.

    Threads of earlier tests may let go of some at any moment, but not in every round: what the
    calls themselves leave is no more than in the round that leaves the least.
    """

    def one_round(call: Callable[[], Any], times: int) -> Counter[str]:
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            for _ in range(times):
                call()
            gc.collect()
            return Counter(type(found).__name__ for found in gc.garbage)
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()

    def least(call: Callable[[], Any], times: int) -> Counter[str]:
        found = one_round(call, times)
        for _ in range(4):
            if not found:
                break
            found = min(found, one_round(call, times), key=Counter.total)
        return found

    return least
