"""Arrays as text, as TensorFlow 2.21 wrote the same arrays in assertions and tf.strings.format."""

import ml_dtypes
import numpy as np
import pytest

from millrace.core.value_text import entry, escape, pretty, summary


def strings(*texts):
    array = np.empty(len(texts), object)
    array[:] = texts
    return array


@pytest.mark.parametrize(
    ("array", "limit", "expected"),
    [
        (np.arange(1, 6), 3, "1 2 3..."),
        (np.arange(1, 6), -1, "1 2 3 4 5"),
        (np.arange(1, 7).reshape(3, 2), 3, "[1 2][3...]..."),
        (np.arange(1, 7).reshape(3, 2), 100, "[1 2][3 4][5 6]"),
        (np.arange(1, 9).reshape(2, 2, 2), 3, "[[1 2][3...]]..."),
        (np.arange(10).reshape(2, 5), 3, "[0 1 2...]..."),
        (np.array(7), 3, "7"),
        (np.array(7), 0, "..."),
        (np.array([], np.float32), 3, ""),
        (np.zeros((2, 0)), 3, ""),
        (np.array([True, False]), 3, "1 0"),
        (strings(b"a", b"b c", b'd"e\n'), 3, 'a b c d\\"e\\n'),
    ],
)
def test_a_summary_is_the_first_entries_in_one_line(array, limit, expected):
    assert summary(array, limit) == expected


def test_a_summary_can_be_made_from_the_first_entries_and_the_shape_of_the_whole():
    whole = np.arange(27).reshape(3, 3, 3)
    assert summary(whole.reshape(-1)[:4], 4, whole.shape) == summary(whole, 4)
    assert summary(whole, 4) == "[[0 1 2][3...]]..."


@pytest.mark.parametrize(
    ("array", "limit", "expected"),
    [
        (np.arange(1, 6), 3, "[1 2 3 4 5]"),
        (np.arange(7), 2, "[0 1 ... 5 6]"),
        (np.arange(1, 5).reshape(2, 2), 3, "[[1 2]\n [3 4]]"),
        (np.arange(1, 9).reshape(2, 2, 2), 3, "[[[1 2]\n  [3 4]]\n\n [[5 6]\n  [7 8]]]"),
        (
            np.arange(27).reshape(3, 3, 3),
            1,
            "[[[0 ... 2]\n  ...\n  [6 ... 8]]\n\n ...\n\n [[18 ... 20]\n  ...\n  [24 ... 26]]]",
        ),
        (np.arange(4), 0, "[ ...]"),
        (np.zeros((2, 0)), 3, "[\n ...]"),
        (np.zeros((0, 2)), 3, "[]"),
        (strings(b"a", b"b c"), 3, '["a" "b c"]'),
        (np.array(b"x", object), 3, '"x"'),
        (np.array(3.5), 0, "..."),
    ],
)
def test_a_pretty_text_shows_both_ends_of_every_dimension(array, limit, expected):
    assert pretty(array, limit) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float32(0.1), "0.1"),
        (np.float32(1 / 3), "0.333333343"),
        (np.float32(123456789), "123456792"),
        (np.float32(1e6), "1e+06"),
        (np.float32(-0.0), "-0"),
        (np.float32("nan"), "nan"),
        (np.float32("-inf"), "-inf"),
        (np.float64(1 / 3), "0.33333333333333331"),
        (np.float64(1e10), "10000000000"),
        (np.float64(123456789.123), "123456789.123"),
        (np.float16(0.1), "0.0999755859"),
        (np.array(1 / 3, ml_dtypes.bfloat16)[()], "0.333984375"),
        (np.uint8(200), "200"),
        (np.int8(-3), "-3"),
        (np.complex64(1 + 2j), "?"),
    ],
)
def test_a_number_has_as_few_digits_as_give_it_back(value, expected):
    assert entry(value) == expected


def test_control_characters_and_bytes_beyond_ascii_are_escaped():
    assert escape(b"a\tb\\'\x00\xff") == "a\\tb\\\\\\'\\000\\377"
