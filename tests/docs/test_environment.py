"""The page of variables names all that the code reads, and no others."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_NAME = re.compile(r"MILLRACE_[A-Z][A-Z_]*[A-Z]")
#: Put together from a service's name; docs/election.md has them.
_OF_SERVICES = re.compile(r"MILLRACE_(ETCD|ZOOKEEPER)")


def names_in(text: str) -> set[str]:
    return {name for name in _NAME.findall(text) if not _OF_SERVICES.match(name)}


def test_every_variable_is_on_the_page_and_no_other() -> None:
    sources = [*(ROOT / "millrace").rglob("*.py")]
    read = set().union(*(names_in(path.read_text()) for path in sources))
    assert names_in((ROOT / "docs/environment.md").read_text()) == read
