"""docs/architecture.md follows one step, and names the modules that there are, and no others."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
FOLDERS = ("protocol", "passes", "runtime", "rpc", "server")


def modules() -> set[str]:
    found = (path for folder in FOLDERS for path in (ROOT / "millrace" / folder).rglob("*.py"))
    return {
        str(path.relative_to(ROOT / "millrace")) for path in found if path.name != "__init__.py"
    }


def test_every_module_of_a_steps_way_is_named_and_none_that_is_gone() -> None:
    named = {*re.findall(rf"`((?:{'|'.join(FOLDERS)})/[\w/]+\.py)`", PAGE)}
    there = modules()
    assert not there - named, "not named in docs/architecture.md: run `make docs`"
    gone = {name for name in named - there if not (ROOT / "millrace" / name).exists()}
    assert not gone, "named in docs/architecture.md, but gone"


def test_what_is_named_without_its_folder_is_there() -> None:
    names = {*re.findall(r"`(\w+\.py)`", PAGE)}
    there = {path.name for path in (ROOT / "millrace").rglob("*.py")}
    assert not names - there


def test_one_training_step_is_followed_in_at_most_twelve_hops() -> None:
    section = PAGE.split("### One training step")[1].split("\n**Failing.**")[0]
    hops = re.findall(r"^(\d+)\. ", section, re.MULTILINE)
    assert hops == [str(i + 1) for i in range(len(hops))] and 6 <= len(hops) <= 12
    for word in ("StepRequested", "SendRun", "PartitionFinished", "Publish", "Reply"):
        assert word in section
