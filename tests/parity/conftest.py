"""Marks the recorded cases that Millrace does not pass yet; `gaps.txt` lists them."""

from __future__ import annotations

import pathlib

import pytest

GAPS = {
    line
    for line in (pathlib.Path(__file__).parent / "gaps.txt").read_text().splitlines()
    if line and not line.startswith("#")
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A gap is run all the same, and its failure expected."""
    for item in items:
        if item.name in GAPS:
            item.add_marker(pytest.mark.xfail(reason="listed in gaps.txt", strict=False))
