"""docs/api-coverage.md is what the code says."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def tool() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "tools/api_coverage.py"))


def test_the_page_is_current() -> None:
    """A process of its own says so: modules that other tests imported would be names here."""
    tool = str(DOCS / "tools/api_coverage.py")
    show = f"import runpy; print(runpy.run_path({tool!r})['page'](), end='')"
    page = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True)
    written = (DOCS / "api-coverage.md").read_text()
    assert written == page.stdout, "names came or went: run `make docs`, and commit the page"


def test_a_name_that_is_not_there_is_found_missing(tool: dict[str, Any]) -> None:
    assert tool["is_there"]("tf.train.Saver")
    assert not tool["is_there"]("tf.train.NoSuchThing")
    assert not tool["is_there"]("tf.nosuch.Thing")


def test_names_belong_to_modules(tool: dict[str, Any]) -> None:
    assert tool["module_of"]("tf.Session") == "tf"
    assert tool["module_of"]("tf.GraphKeys.SAVERS") == "tf"
    assert tool["module_of"]("tf.contrib.framework.get_name_scope") == "tf.contrib.framework"
