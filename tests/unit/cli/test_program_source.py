"""A program's text: its script and the modules of its own, found without running anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.cli import job, program_source

FLAGS = "flags.DEFINE_string('ps_hosts', '', '')\n"


@pytest.fixture
def program(tmp_path):
    """Writes a program's files and gives its text; `main.py` is the script."""

    def text(**files):
        for name, content in files.items():
            path = tmp_path / (name.replace("__in__", "/") + ".py")
            path.parent.mkdir(exist_ok=True, parents=True)
            path.write_text(content)
        return program_source.text_of(tmp_path / "main.py")

    return text


@pytest.mark.parametrize(
    "line",
    [
        "import cluster_flags",
        "import os, cluster_flags as f",
        "from cluster_flags import FLAGS",
        "  from cluster_flags import *  # inside a function",
        "print 'Python 2'; x = 0777\nimport cluster_flags",
    ],
)
def test_flags_in_a_module_beside_the_script_are_found(program, line):
    text = program(main=line, cluster_flags=FLAGS)
    assert job.way_of(text) == job.FLAGS


@pytest.mark.parametrize(
    "line",
    [
        "import lib.common.options",
        "from lib.common import options",
        "from lib.common import (a,\n    options)",
        "from lib.common.options import FLAGS",
    ],
)
def test_modules_of_packages_are_found(program, line):
    text = program(
        main=line, lib__in____init__="", lib__in__common__in____init__="",
        lib__in__common__in__options=FLAGS,
    )  # fmt: skip
    assert job.way_of(text) == job.FLAGS


def test_relative_imports_and_imports_of_imports_are_followed(program):
    text = program(
        main="import lib.train", lib__in____init__="", lib__in__train="from . import setup",
        lib__in__setup="from .flags import F\nfrom ..lib import train", lib__in__flags=FLAGS,
    )  # fmt: skip
    assert job.way_of(text) == job.FLAGS


def test_what_is_not_the_programs_own_is_not_read(program, tmp_path):
    (tmp_path.parent / "outside.py").write_text(FLAGS)
    text = program(main="import os, numpy\nfrom .. import outside\nimport nothing_here")
    assert job.way_of(text) is None
    assert text.startswith("import os")


def test_a_script_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(OSError, match="none"):
        program_source.text_of(Path(tmp_path / "none.py"))
