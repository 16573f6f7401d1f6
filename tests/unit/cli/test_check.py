"""`millrace check`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from millrace.cli.main import main
from millrace.compat import tensorflow_import


@pytest.fixture(autouse=True)
def _tensorflow_is_as_it_was():
    yield
    tensorflow_import.uninstall()


def check(path: Path, capsys, *flags: str) -> tuple[int, list[str]]:
    code = main(["check", *flags, str(path)])
    return code, capsys.readouterr().out.splitlines()


def test_every_missing_name_is_told_with_its_line_and_what_replaces_it(tmp_path, capsys) -> None:
    script = tmp_path / "trainer.py"
    script.write_text(
        "import tensorflow as tf\n"
        "from tensorflow.contrib.keras import layers as kl\n"
        "import model\n"
        "L = tf.layers\n"
        "def f(x):\n"
        "    print L.dense(x, 3), L.desne(x, 3)\n"
        "    return tf.train.AdamOptimizer(1.0).minimize, tf.GraphKeys.WEIGHTS\n"
    )
    (tmp_path / "model.py").write_text("import tensorflow\n\ntensorflow.contrib.ignite.Dataset()\n")
    code, lines = check(script, capsys)
    assert code == 1
    assert lines == [
        f"{script}:2: tf.contrib.keras is not in Millrace; what there is for it: tf.keras",
        f"{script}:6: tf.layers.desne is not in Millrace; did you mean tf.layers.dense?",
        f"{tmp_path / 'model.py'}:3: tf.contrib.ignite is not in Millrace",
        "8 names of TensorFlow used, 3 missing.",
    ]


def test_a_program_that_lacks_nothing_ends_with_0(tmp_path, capsys) -> None:
    script = tmp_path / "fine.py"
    script.write_text(
        "import tensorflow.compat.v1 as tf\nfrom tensorflow.python.ops import array_ops\n"
        "x = tf.constant(1)\nconfig = tf.ConfigProto()\nconfig.gpu_options.allow_growth = True\n"
        "y = array_ops.reshape(x, [1])\nd = tf.float32.as_numpy_dtype.anything\n"
    )
    assert check(script, capsys) == (0, ["6 names of TensorFlow used, none missing."])


def test_the_findings_are_given_as_json(tmp_path, capsys) -> None:
    script = tmp_path / "trainer.py"
    script.write_text("import tensorflow as tf\ntf.no_such_thing_at_all\n")
    code, lines = check(script, capsys, "--json")
    (found,) = json.loads("\n".join(lines))["missing"]
    assert (code, found["name"], found["line"]) == (1, "tf.no_such_thing_at_all", 2)


def test_what_cannot_be_read_is_told_and_ends_with_2(tmp_path, capsys) -> None:
    script = tmp_path / "broken.py"
    script.write_text("def f(:\n")
    assert main(["check", str(script)]) == 2
    assert "SyntaxError" in capsys.readouterr().err
    assert main(["check", str(tmp_path / "nowhere.py")]) == 2
    assert "there is no file" in capsys.readouterr().err
