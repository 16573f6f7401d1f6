"""The examples in README.md and docs/, run as they stand.

All ```python blocks of a document are one program, in the order in which they are read; all
```bash blocks are one script. They run in an empty folder beside which nothing lies but the
project's `examples`. A block after the line `<!-- an excerpt -->` is shown only, and so is one that
names no language.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_EXCERPT = "<!-- an excerpt -->"


def blocks(document: Path, language: str) -> list[str]:
    """The blocks of a language that are examples."""
    found = re.findall(r"^(.*)\n```(\w+)\n((?:.*\n)*?)```$", document.read_text(), re.M)
    return [text for before, name, text in found if name == language and before != _EXCERPT]


def with_blocks(language: str) -> list[pytest.ParameterSet]:
    return [
        pytest.param(document, id=document.name)
        for document in DOCUMENTS
        if blocks(document, language)
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the examples, and a `millrace` that is this one."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin/millrace"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m millrace "$@"\n')
    command.chmod(0o755)
    return tmp_path


def run(command: list[str], text: str, folder: Path) -> None:
    path = f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command,
        input=text,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("document", with_blocks("python"))
def test_the_python_of_a_document_runs(document: Path, folder: Path) -> None:
    run([sys.executable, "-"], "\n".join(blocks(document, "python")), folder)


@pytest.mark.parametrize("document", with_blocks("bash"))
def test_the_commands_of_a_document_run(document: Path, folder: Path) -> None:
    run(["bash", "-euo", "pipefail"], "\n".join(blocks(document, "bash")), folder)


def test_the_documents_that_people_begin_with_have_examples() -> None:
    names = {parameter.id for parameter in with_blocks("python") + with_blocks("bash")}
    assert {"README.md", "getting-started.md", "launching.md", "moving-a-tf1-program.md"} <= names


def test_links_between_documents_lead_somewhere() -> None:
    broken = []
    for document in [*DOCUMENTS, ROOT / "examples/README.md", *ROOT.glob("docs/decisions/*.md")]:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)|src=\"([^\"]+)\"", document.read_text()):
            place = target[0] or target[1]
            if "://" not in place and not (document.parent / place).exists():
                broken.append(f"{document.name}: {place}")
    assert not broken
