"""`tf.compat.as_bytes` and its relatives, as TensorFlow's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import millrace as tf


@pytest.mark.parametrize("value", [b"a", "a", bytearray(b"a")])
def test_bytes_of_a_string(value: Any) -> None:
    assert tf.compat.as_bytes(value) == b"a"


def test_text_of_a_string() -> None:
    for function in (tf.compat.as_text, tf.compat.as_str):
        assert function(b"\xc3\xbc") == function("ü") == "ü"
        assert function(b"\xfc", encoding="latin-1") == "ü"
        with pytest.raises(UnicodeDecodeError):
            function(b"\xff")


@pytest.mark.parametrize("value", [7, None, [b"a"]])
def test_what_is_no_string_is_refused(value: Any) -> None:
    for function in (tf.compat.as_bytes, tf.compat.as_text, tf.compat.as_str):
        with pytest.raises(TypeError, match="Expected binary or unicode string, got"):
            function(value)


def test_text_of_anything() -> None:
    assert [tf.compat.as_str_any(v) for v in (b"a", "b", 7, None)] == ["a", "b", "7", "None"]


def test_paths_become_text_and_the_rest_stays() -> None:
    assert tf.compat.path_to_str(Path("/a/b")) == "/a/b"
    assert tf.compat.path_to_str("/a") == "/a"
    assert tf.compat.path_to_str(None) is None


def test_dates_up_to_the_release_of_1_15_are_compatible() -> None:
    assert tf.compat.forward_compatible(2019, 1, 1)
    assert not tf.compat.forward_compatible(2030, 1, 1)
    with tf.compat.forward_compatibility_horizon(2031, 1, 1):
        assert tf.compat.forward_compatible(2030, 1, 1)
    assert not tf.compat.forward_compatible(2030, 1, 1)
