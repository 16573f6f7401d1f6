"""Strings whose length numbers decide: refused before they are made."""

import numpy as np
import pytest

import millrace as tf
from millrace.core import errors


def run(make):
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(make())


def ngrams(width, words):
    return tf.raw_ops.StringNGrams(
        data=words,
        data_splits=np.array([0, len(words)], np.int64),
        separator="",
        ngram_widths=[width],
        left_pad="",
        right_pad="",
        pad_width=0,
        preserve_short_sequences=False,
    )[0]


@pytest.mark.parametrize("option", ["width", "precision"])
def test_a_number_is_written_with_so_many_characters_and_no_more(monkeypatch, option):
    monkeypatch.setenv("MILLRACE_MAX_STRING_LENGTH", "1000")
    assert len(run(lambda: tf.as_string(1.0, **{option: 900}))) >= 900
    with pytest.raises(errors.ResourceExhaustedError, match="width and precision.*STRING_LENGTH"):
        run(lambda: tf.as_string(1.0, **{option: 1001}))


def test_a_string_that_doubles_ends_at_the_limit_of_one_string(monkeypatch):
    monkeypatch.setenv("MILLRACE_MAX_STRING_LENGTH", "1000")

    def doubled():
        return tf.while_loop(lambda i, _: i < 60, lambda i, s: (i + 1, s + s), [0, "ab"])[1]

    with pytest.raises(errors.ResourceExhaustedError, match="MILLRACE_MAX_STRING_LENGTH"):
        run(doubled)


def test_wide_ngrams_of_many_words_are_refused_before_they_are_made(monkeypatch):
    monkeypatch.setenv("MILLRACE_MAX_STRING_BYTES", "10000")
    assert len(run(lambda: ngrams(2, [b"word"] * 100))) == 99
    with pytest.raises(errors.ResourceExhaustedError, match="joined strings: 20,000.*STRING_BYTES"):
        run(lambda: ngrams(50, [b"word"] * 100))


def test_many_equal_strings_are_serialized():
    proto = run(lambda: tf.serialize_tensor(tf.fill([1 << 12], b"abc")))
    again = run(lambda: tf.parse_tensor(proto, tf.string))
    assert again.shape == (1 << 12,) and set(again.tolist()) == {b"abc"}
