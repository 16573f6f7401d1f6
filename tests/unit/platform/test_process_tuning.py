"""What Millrace changes for the whole process: what it is, that it is listed, and that it goes."""

from __future__ import annotations

import ast
import gc
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.platform import process_tuning

ROOT = Path(__file__).parents[3]
THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "BLIS_NUM_THREADS")


def answers(code: str, **said: str) -> list[str]:
    """What a process prints whose environment says nothing else of threads."""
    environment = {key: value for key, value in os.environ.items() if key not in THREADS}
    code = f"from millrace.platform import process_tuning; {code}"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, **said},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.parametrize(("said", "expected"), [(None, "True"), ("1", "True"), ("3", "False")])
def test_what_the_user_says_of_threads_holds(said: str | None, expected: str) -> None:
    more = {} if said is None else {"OPENBLAS_NUM_THREADS": said}
    assert answers("print(process_tuning.use_one_blas_thread())", **more) == [expected]


@pytest.mark.parametrize(("count", "expected"), [(1, [1]), (2, [2])])
def test_a_task_with_a_core_of_its_own_multiplies_in_one_thread(
    count: int, expected: list[int]
) -> None:
    code = (
        "import threadpoolctl; from millrace.server import threads;"
        f"threadpoolctl.threadpool_limits(2, 'blas'); threads.use({count});"
        "print(*{i['num_threads'] for i in threadpoolctl.threadpool_info()"
        " if i['user_api'] == 'blas'})"
    )
    assert answers(code) == list(map(str, expected))


#: Whether a process is left as it was: collector, imports, flags, dispatch, threads of XLA and
#: BLAS, malloc; then what a training step makes of a variable.
_LEFT_ALONE = """
import gc, sys, os
before = gc.get_threshold(), gc.get_freeze_count()
import millrace as tf
from millrace.compiler import xla
from millrace.server import threads
print((gc.get_threshold(), gc.get_freeze_count()) == before, "pygments" in sys.modules,
      not xla.JOINS_LOOPS, xla.jax.config.read("jax_cpu_enable_async_dispatch"),
      not xla.use_threads(1), not process_tuning.use_one_blas_thread(),
      not process_tuning.keep_freed_memory())
v = tf.Variable([1.0, 2.0])
train = tf.train.AdamOptimizer(0.5).minimize(tf.reduce_sum(v * v))
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    sess.run(train)
    print(*sess.run(v).round(3))
"""


def test_with_one_variable_the_process_is_left_as_it_was_and_training_works() -> None:
    said = answers(f"exec({_LEFT_ALONE!r})", MILLRACE_PROCESS_TUNING="off")
    assert said == ["True"] * 7 + ["0.5", "1.5"]


def test_another_word_than_on_and_off_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_PROCESS_TUNING", "perhaps")
    with pytest.raises(ValueError, match=r"MILLRACE_PROCESS_TUNING='perhaps': say on or off"):
        process_tuning.is_on()


def test_the_documents_list_every_effect() -> None:
    text = (ROOT / "docs" / "performance.md").read_text()
    section = text[text.index("## What Millrace changes for the whole process") :]
    listed = re.findall(r"^\| ([^|]+?) \|", section, re.MULTILINE)
    assert set(process_tuning.EFFECTS) <= set(listed)
    assert process_tuning.VARIABLE in section


def test_no_other_module_touches_the_process() -> None:
    """By the calls that do: thresholds of the collector, malloc, metadata, the environment."""
    touching = {"set_threshold", "freeze", "mallopt", "set_num_threads", "threadpool_limits"}
    found = []
    for path in sorted((ROOT / "millrace").rglob("*.py")):
        if path.name == "process_tuning.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in touching:
                found.append(f"{path.name}: {node.attr}")
    # `freeze` of a graph or of options is not the collector's.
    assert [each for each in found if not each.endswith("freeze")] == []


@pytest.fixture
def thaw() -> Iterator[None]:
    """What a test freezes may be garbage of the tests before it."""
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("thaw")
def test_the_collector_works_after_a_rest_as_before() -> None:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    try:
        process_tuning.rest_collector()
        process_tuning.rest_collector()  # an import within an import
        assert gc.get_threshold()[0] > before[0]
    finally:
        process_tuning.resume_collector()
    assert gc.get_threshold() == before
    assert gc.isenabled()
    assert gc.get_freeze_count() > frozen


@pytest.mark.usefixtures("thaw")
def test_a_collector_that_is_switched_off_stays_so() -> None:
    before = gc.get_threshold()
    gc.set_threshold(0)
    try:
        process_tuning.rest_collector()
        assert gc.get_threshold()[0] == 0
        process_tuning.resume_collector()
        assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*before)
