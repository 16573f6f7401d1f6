"""`millrace run`, in processes of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def run(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "millrace", "run", str(path), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_python_2_program_with_flags_runs_unchanged(tmp_path: Path) -> None:
    script = tmp_path / "old.py"
    script.write_text(
        "import tensorflow as tf\n"
        "import neighbour\n"
        "import numpy as np\n"
        'tf.app.flags.DEFINE_integer("task_index", 0, "which")\n'
        "FLAGS = tf.app.flags.FLAGS\n"
        "def main(_):\n"
        "    with tf.Session() as sess:\n"
        '        print "got", sess.run(tf.constant(2) * FLAGS.task_index), neighbour.NAME\n'
        '        print "weight: %.1f" % sess.run(tf.constant([0.5])), np.float(1)\n'
        'if __name__ == "__main__":\n'
        "    tf.app.run()\n"
    )
    (tmp_path / "neighbour.py").write_text("NAME = 'next door'\nprint 'I am old too'\n")
    done = run(script, "--task_index=21")
    assert done.returncode == 0, done.stderr
    assert "got 42 next door" in done.stdout
    assert "weight: 0.5 1.0" in done.stdout
    assert "I am old too" in done.stdout
    assert done.stderr.count("is Python 2; running it as Python 3") == 2
    assert not list(tmp_path.glob("__pycache__/neighbour*"))
    assert 'print "got"' in script.read_text()


def test_a_missing_name_is_told_with_the_place_and_what_is_near(tmp_path: Path) -> None:
    script = tmp_path / "wrong.py"
    script.write_text("import tensorflow as tf\n\ntf.train.AdamOptimiser(0.1)\n")
    done = run(script)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert "tf.train.AdamOptimiser is not in Millrace; did you mean tf.train.AdamOptimizer?" in last
    assert f"{script}, line 3" in last


def test_a_name_that_is_missing_in_a_module_of_the_programs_is_told_with_its_place(
    tmp_path: Path,
) -> None:
    script, module = tmp_path / "main.py", tmp_path / "model.py"
    script.write_text("import model\nmodel.build()\n")
    module.write_text("import tensorflow as tf\n\n\ndef build():\n    tf.layers.desne(1)\n")
    done = run(script)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert f"(used in {module}, line 5)" in last


def test_a_mistake_in_python_3_is_shown_as_python_shows_it(tmp_path: Path) -> None:
    script = tmp_path / "thing.py"
    script.write_text("import tensorflow as tf\n\ndef f(:\n    pass\n")
    done = run(script)
    assert done.returncode == 1
    pythons = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.stderr == pythons.stderr


def test_an_error_of_the_program_shows_the_programs_own_lines(tmp_path: Path) -> None:
    script = tmp_path / "wrong.py"
    script.write_text(
        "import tensorflow as tf\n"
        "def build(x):\n"
        "    return tf.reshape(x, [7])\n"
        "y = build(tf.placeholder(tf.float32, [None]))\n"
        "with tf.train.MonitoredSession() as sess:\n"
        "    sess.run(y, {'Placeholder:0': [1.0]})\n"
    )
    done = run(script)
    assert done.returncode == 1
    trace, _, message = done.stderr.partition("\nmillrace.core.errors.InvalidArgumentError: ")
    assert [line for line in trace.splitlines() if "File" in line] == [
        f'  File "{script}", line 6, in <module>'
    ]
    assert "defined at" in message and "frames of Millrace left out" in message
    assert "bin/millrace" not in message and "runpy" not in message


@pytest.mark.parametrize(("text", "code"), [(None, 2), (b"\xff", 1)])
def test_what_cannot_be_run_is_one_sentence(tmp_path: Path, text: bytes | None, code: int) -> None:
    script = tmp_path / "thing.py"
    if text is not None:
        script.write_bytes(text)
    done = run(script)
    assert done.returncode == code
    assert len(done.stderr.strip().splitlines()) == 1
    assert "millrace run:" in done.stderr


def test_a_module_of_a_package_runs_with_m(tmp_path: Path) -> None:
    package = tmp_path / "trainer"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "model.py").write_text("WIDTH = 3\nprint 'old model'\n")
    (package / "task.py").write_text(
        "import sys\nfrom . import model\nimport tensorflow as tf\nimport six\n"
        "print(__name__, __package__, model.WIDTH, sys.argv[1:], tf.__name__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "millrace", "run", "-m", "trainer.task", "--flag=1"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "__main__ trainer 3 ['--flag=1'] millrace" in done.stdout
    assert "old model" in done.stdout


def test_a_module_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "millrace", "run", "-m", "no_such.module"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert "no_such" in done.stderr
