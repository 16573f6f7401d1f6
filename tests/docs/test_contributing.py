"""CONTRIBUTING.md sends newcomers only to files and names that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
#: What `make release` makes.
MADE = {"dist/"}
QUOTED = sorted({*re.findall(r"`([^`\n]+)`", TEXT)})


@pytest.mark.parametrize(
    "path", [each for each in QUOTED if re.fullmatch(r"[\w./<>*-]*/\S*", each)]
)
def test_a_path_is_there(path: str) -> None:
    assert path in MADE or [*ROOT.glob(re.sub("<[a-z]+>", "*", path))], f"{path} is gone"


@pytest.mark.parametrize(
    "target", sorted({*re.findall(r"make (?:BASE\S+ )?([a-z]+)", TEXT)} - {"s"})
)
def test_a_target_of_make_is_there(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_a_name_is_defined_in_the_file_that_is_named_with_it() -> None:
    """`NAME` of (in) `file`: the file defines it."""
    pairs = re.findall(r"`(\w+)`\s+(?:of|in)\s+`([\w/]+\.py)`", TEXT)
    assert len(pairs) >= 5
    for name, path in pairs:
        assert re.search(rf"^(?:class )?{name}\b", (ROOT / path).read_text(), re.MULTILINE), name
