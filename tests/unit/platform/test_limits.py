"""Limits: how they are written, and that the document tells them all."""

import re
from pathlib import Path

import pytest

from millrace.core import errors
from millrace.platform import limits

_DOCUMENT = Path(__file__).parents[3] / "docs/security.md"


@pytest.mark.parametrize(
    ("text", "value"), [("1000", 1000), ("2K", 2048), ("1.5GiB", 3 << 29), ("none", float("inf"))]
)
def test_a_limit_is_written_as_people_write_sizes(monkeypatch, text, value):
    monkeypatch.setenv("MILLRACE_MAX_GRAPH_BYTES", text)
    assert limits.GRAPH_BYTES.value == value


def test_a_limit_that_is_no_number_is_an_error(monkeypatch):
    monkeypatch.setenv("MILLRACE_MAX_GRAPH_BYTES", "many")
    with pytest.raises(ValueError, match="MILLRACE_MAX_GRAPH_BYTES='many'"):
        _ = limits.GRAPH_BYTES.value


def test_an_error_names_the_limit_and_how_to_raise_it(monkeypatch):
    monkeypatch.setenv("MILLRACE_MAX_GRAPH_NODES", "10")
    limits.GRAPH_NODES.check(10, "Nodes")
    with pytest.raises(errors.ResourceExhaustedError, match="11.*10.*MILLRACE_MAX_GRAPH_NODES"):
        limits.GRAPH_NODES.check(11, "Nodes")


def test_the_document_tells_every_limit_with_its_default(monkeypatch):
    table = dict(re.findall(r"^\| `(MILLRACE_\w+)` \| ([\w.]+)", _DOCUMENT.read_text(), re.M))
    for limit in limits.ALL:
        told = table[limit.variable]
        if limit in (limits.MEMORY_BYTES, limits.COMPUTING_STEPS_PER_CLIENT):
            assert told == "the"  # machine's memory, the cores
            continue
        default = limit.default
        monkeypatch.setenv(limit.variable, told)
        assert limit.value == default, limit.variable
