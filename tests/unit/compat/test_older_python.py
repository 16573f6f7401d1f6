"""Names that Python 3 had in TensorFlow 1's time."""

from __future__ import annotations

import collections
import collections.abc
import fractions
import inspect
import time
from typing import Any

import pytest

from millrace.compat import older_python


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (
        (collections, "Mapping"), (collections, "Iterable"), (inspect, "getargspec"),
        (inspect, "ArgSpec"), (time, "clock"), (fractions, "gcd"),
    ):  # fmt: skip
        monkeypatch.delattr(module, name, raising=False)


def test_collections_has_its_abstract_classes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    older_python.install()
    old: Any = collections
    assert old.Mapping is collections.abc.Mapping
    assert isinstance([], old.Iterable)


def test_getargspec_answers_as_it_did() -> None:
    older_python.install()
    old: Any = inspect

    def function(a: int, b: int = 2, *rest: int, c: int = 3, **more: int) -> None: ...

    assert old.getargspec(function) == (["a", "b"], "rest", "more", (2,))


def test_clock_and_gcd_are_there() -> None:
    older_python.install()
    old_time: Any = time
    old_fractions: Any = fractions
    assert old_time.clock() >= 0
    assert old_fractions.gcd(12, 18) == 6
