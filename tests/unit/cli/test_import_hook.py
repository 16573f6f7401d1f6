"""`millrace import-hook`, in an environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import millrace
from millrace.cli import main
from millrace.compat import environment_switch


class Environment:
    """A venv that finds the packages of this interpreter, and has its own site-packages."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, symlinks=True)
        self.python = folder / "bin/python"
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self.site_packages = folder / "lib" / version / "site-packages"
        parents = [str(Path(millrace.__file__).parents[1]), sysconfig.get_path("purelib")]
        (self.site_packages / "parents.pth").write_text("\n".join(parents))

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        variables = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        return subprocess.run(
            [self.python, *arguments],
            cwd=self.site_packages.parent,  # not where Millrace may lie
            env=variables,
            capture_output=True,
            text=True,
            timeout=120,
        )


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "venv")


def test_tensorflow_is_millrace_in_the_environment_until_it_is_taken_back(
    environment: Environment,
) -> None:
    files = sorted(environment.site_packages.iterdir())
    program = (
        "import tensorflow as tf\n"
        "from tensorflow.examples.tutorials.mnist import input_data\n"
        "print(tf.__name__, tf.Session().run(tf.constant(42)))"
    )
    assert "No module named 'tensorflow'" in environment.run("-c", program).stderr
    turned = environment.run("-m", "millrace", "import-hook", "on")
    assert turned.returncode == 0, turned.stderr
    assert turned.stdout.startswith("on: ")
    ran = environment.run("-c", program)
    assert ran.stdout == "millrace 42\n", ran.stderr
    assert environment.run("-m", "millrace", "import-hook", "off").stdout.startswith("off: ")
    assert "No module named 'tensorflow'" in environment.run("-c", program).stderr
    left = [path for path in environment.site_packages.iterdir() if path.name != "__pycache__"]
    assert sorted(left) == files


def test_other_programs_do_not_load_millrace(environment: Environment) -> None:
    environment_switch.switch_on(environment.site_packages)
    # TensorBoard looks for a TensorFlow, and would take more of it than there is.
    program = (
        "import sys, tensorboard.compat\n"
        "print(tensorboard.compat.tf.__version__, 'millrace' in sys.modules)"
    )
    ran = environment.run("-c", program)
    assert (ran.stdout, ran.stderr) == ("stub False\n", "")


def test_an_environment_that_lost_millrace_says_that_there_is_no_tensorflow(
    environment: Environment,
) -> None:
    environment_switch.switch_on(environment.site_packages)
    (environment.site_packages / "parents.pth").unlink()
    ran = environment.run("-c", "import tensorflow")
    assert ran.stderr.endswith("ModuleNotFoundError: No module named 'tensorflow'\n")


def test_a_tensorflow_that_is_installed_is_hidden_only_if_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow/__init__.py").write_text("")
    on = ["import-hook", "on", "--site-packages", str(tmp_path)]
    assert main.main(on) == 1
    told = capsys.readouterr().err
    assert "TensorFlow is installed" in told and "--force" in told
    assert not environment_switch.is_on(tmp_path)
    assert main.main([*on, "--force"]) == 0
    assert environment_switch.is_on(tmp_path)
    assert main.main(["import-hook", "off", "--site-packages", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("off: `import tensorflow` imports T")


def test_a_folder_that_is_not_there_is_told_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["import-hook", "status", "--site-packages", str(tmp_path / "no")]) == 1
    assert "there is no folder" in capsys.readouterr().err
