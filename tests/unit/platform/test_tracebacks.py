"""What is left of a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback

import pytest

import millrace as tf
from millrace.platform import tracebacks


def failing() -> ValueError:
    with tf.Graph().as_default(), pytest.raises(ValueError) as found:
        tf.matmul(tf.zeros([2, 3]), tf.zeros([2, 3]))
    return found.value


def test_only_the_programs_frames_are_left() -> None:
    error = failing()
    before = len(traceback.extract_tb(error.__traceback__))
    count = tracebacks.strip(error)
    left = traceback.extract_tb(error.__traceback__)
    assert [entry.filename for entry in left] == [__file__]
    assert count == before - 1 > 2


def test_a_function_of_the_program_that_millrace_calls_stays() -> None:
    def wrong(each):
        raise KeyError("mine")

    with tf.Graph().as_default(), pytest.raises(KeyError) as found:
        tf.map_fn(wrong, tf.zeros([2]))
    tracebacks.strip(found.value)
    names = [entry.name for entry in traceback.extract_tb(found.value.__traceback__)]
    assert names[0].startswith("test_") and names[-1] == "wrong"


def test_an_error_without_a_line_of_the_program_keeps_its_frames() -> None:
    error = failing()
    error.__traceback__ = error.__traceback__.tb_next
    before = error.__traceback__
    assert tracebacks.strip(error) == 0
    assert error.__traceback__ is before


def test_what_was_raised_and_handled_inside_millrace_is_not_shown() -> None:
    error, inner = failing(), failing()
    inner.__traceback__ = inner.__traceback__.tb_next
    error.__context__ = inner
    tracebacks.strip(error)
    assert "During handling" not in "".join(traceback.format_exception(error))


@pytest.mark.parametrize("full", ["0", "1"])
def test_the_variable_shows_all(full: str) -> None:
    program = "import millrace as tf\ntf.matmul(tf.zeros([2, 3]), tf.zeros([2, 3]))\n"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, tracebacks.FULL: full},
    )
    assert ("shape_inference" in done.stderr) == (full == "1")
    assert (f"{tracebacks.FULL}=1 shows all" in done.stderr) == (full == "0")


def test_a_notebook_shows_a_page() -> None:
    shell = pytest.importorskip("IPython.core.interactiveshell")
    program = (
        "from IPython.core.interactiveshell import InteractiveShell as S\n"
        "shell = S.instance()\n"
        "shell.run_cell('import millrace as tf')\n"
        "shell.run_cell('''x = tf.placeholder(tf.float32, [None])\\ny = tf.reshape(x, [7])\\n"
        "with tf.Session() as sess:\\n    sess.run(y, {x: [1.0]})''')\n"
    )
    assert shell is not None
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "InvalidArgumentError" in done.stdout, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) < 40
    assert "executor.py" not in done.stdout


def test_errors_that_are_each_others_causes_end() -> None:
    first, second = failing(), failing()
    first.__cause__, second.__cause__ = second, first
    assert tracebacks.strip(first) > 2
    for error in (first, second):
        assert [f.filename for f in traceback.extract_tb(error.__traceback__)] == [__file__]
