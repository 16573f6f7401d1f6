"""What is loaded at its first use, and what stands for it until then."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

import millrace as tf
from millrace.platform import lazy_import


@pytest.fixture
def unloaded() -> Iterator[str]:
    """A module of the standard library that is not loaded, and is not afterwards."""
    before = sys.modules.pop("colorsys", None)
    yield "colorsys"
    sys.modules.pop("colorsys", None)
    if before is not None:
        sys.modules["colorsys"] = before


def test_a_deferred_module_loads_when_something_of_it_is_asked_for(unloaded: str) -> None:
    stand_in = lazy_import.module(unloaded)
    assert unloaded not in sys.modules
    assert stand_in.rgb_to_hsv(0, 0, 0) == (0.0, 0.0, 0)
    assert unloaded in sys.modules


def test_looking_at_a_deferred_module_does_not_load_it(unloaded: str) -> None:
    stand_in = lazy_import.module(unloaded)
    assert not hasattr(stand_in, "__path__")
    assert unloaded in repr(stand_in)
    assert unloaded not in sys.modules


def test_a_deferred_module_has_no_names_that_the_module_lacks(unloaded: str) -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = lazy_import.module(unloaded).no_such_name


def test_who_imports_a_module_for_which_another_stands_in_loads_it_at_its_use(
    unloaded: str,
) -> None:
    scope: dict[str, Any] = {}
    with lazy_import.replacing(unloaded):
        exec(f"import {unloaded}", scope)
    assert unloaded not in sys.modules
    assert scope[unloaded].rgb_to_hsv(0, 0, 0) == (0.0, 0.0, 0)
    assert sys.modules[unloaded] is not scope[unloaded]


def test_whoever_asks_while_others_stand_in_gets_the_module_itself(unloaded: str) -> None:
    scope: dict[str, Any] = {}
    with lazy_import.replacing(unloaded):
        exec(f"from {unloaded} import rgb_to_hsv", scope)
        assert sys.modules[unloaded].rgb_to_hsv is scope["rgb_to_hsv"]
    assert unloaded in sys.modules


def test_nothing_stands_in_for_a_module_that_is_there() -> None:
    with lazy_import.replacing("json", "json.decoder"):
        import json.decoder

        assert not isinstance(json, lazy_import.LazyModule)


def test_the_namespace_lists_what_it_has_not_loaded_yet() -> None:
    assert {"app", "contrib", "test", "train"} <= set(dir(tf))
    assert tf.test is sys.modules["millrace.test"]
    with pytest.raises(AttributeError, match="module 'millrace' has no attribute 'no_such_name'"):
        _ = tf.no_such_name
