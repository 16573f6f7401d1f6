"""Work in pieces gives what the one call gives."""

import gc
import threading
from typing import Any

import numpy as np
import pytest

from millrace.core import pieces


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "ELEMENTS", 3)
    monkeypatch.setattr(pieces, "BYTES", 4)


@pytest.mark.parametrize("count", [0, 1, 3, 4, 10])
def test_strings_are_joined_and_split(count: int) -> None:
    words = [b"%d" % (i * 7 % 101) for i in range(count)]
    for mark in (b" ", b", "):
        joined = pieces.join(mark, words)
        assert joined == mark.join(words)
        assert list(pieces.split(joined, mark)) == joined.split(mark)


@pytest.mark.parametrize("string", [b"", b",", b"abcdefgh", b"ab,,cd,,,efghijkl,m,", b",,,,,,,,"])
def test_a_string_is_split_where_marks_stand_side_by_side(string: bytes) -> None:
    for mark in (b",", b",,"):
        assert list(pieces.split(string, mark)) == string.split(mark)


@pytest.mark.parametrize("kind", [np.int64, object])
def test_values_are_numbered_in_their_order(kind: Any) -> None:
    values = np.array([5, 3, 5, 9, 0, 3, 3, 8, 1, 2], kind)
    found, numbers = pieces.numbered(values)
    assert found.tolist() == sorted(set(values.tolist()))
    assert found[numbers].tolist() == values.tolist()


def test_the_collector_runs_again_when_the_last_has_left() -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with pieces.collector_pauses():
            inside.set()
            assert leave.wait(60)

    thread = threading.Thread(target=other)
    assert gc.isenabled()
    with pieces.collector_pauses():
        thread.start()
        assert inside.wait(60)
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()
