"""String ops: what the parity cases do not reach."""

import numpy as np
import pytest

import millrace as tf
from millrace.core import errors
from millrace.ops.strings import fingerprint
from millrace.ops.strings import regular_expressions as expressions
from millrace.ops.strings.conversion import csv_fields


def run(build):
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(build())


def fails(build, words):
    with tf.Graph().as_default(), tf.Session() as session:
        fetch = build()
        with pytest.raises(errors.InvalidArgumentError, match=words):
            session.run(fetch)


def test_fingerprints_do_not_depend_on_the_batch():
    words = [bytes(range(n % 251)) * 2 for n in (0, 1, 2, 3, 5, 9, 20, 40, 70, 70, 130)]
    together = fingerprint.fingerprint64(words)
    alone = [int(fingerprint.fingerprint64([word])[0]) for word in words]
    assert together.tolist() == alone
    assert len(set(alone)) == len(set(words))


def test_an_empty_batch_has_no_fingerprints():
    assert fingerprint.fingerprint64([]).shape == (0,)


def test_siphash_gives_the_known_answer_of_its_authors():
    key = (0x0706050403020100, 0x0F0E0D0C0B0A0908)
    assert fingerprint.siphash(bytes(range(15)), key) == 0xA129CA6149BE45E5


@pytest.mark.parametrize(
    ("string", "pattern", "rewrite", "expected"),
    [
        ("abxd", "x*", "-", "-a-b-d-"),
        ("abcabc", "b(c)", r"[\1\0]", "a[cbc]a[cbc]"),
        ("a.b", "[[:alpha:]]", "N", "N.N"),
        ("a]b", "[]]", "N", "aNb"),
        ("a[b", "[[]", "N", "aNb"),
        ("x\n", "$", "E", "x\nE"),
        ("x\n", r"\z", "E", "x\nE"),
        ("a+b", r"\Qa+b\E", "N", "N"),
        ("aéb", ".", r"<\0>", "<a><é><b>"),
        ("aé1", r"\w", "N", "NéN"),
        ("a", "a", r"\5", "a"),
        ("a", "a", r"\q", ""),
        ("", "x*", "-", "-"),
        ("x$y", "[$]", "-", "x-y"),
    ],
)
def test_regular_expressions_are_those_of_re2(string, pattern, rewrite, expected):
    compiled = expressions.compile_pattern(pattern.encode())
    result = expressions.replace(compiled, rewrite.encode(), string.encode(), True)
    assert result == expected.encode()


def test_bytes_that_are_no_text_survive_a_replacement():
    compiled = expressions.compile_pattern(b"b")
    assert expressions.replace(compiled, b"-", b"a\xffb\xfe", True) == b"a\xff-\xfe"


@pytest.mark.parametrize(("pattern", "complaint"), [("a(", r"missing \)"), ("*", "no argument")])
def test_a_bad_pattern_says_what_is_wrong(pattern, complaint):
    fails(lambda: tf.regex_replace("a", pattern, "b"), f"Invalid pattern: .*{complaint}")
    fails(lambda: tf.strings.regex_full_match("a", tf.constant(pattern)), "Invalid pattern")


@pytest.mark.parametrize(
    ("record", "fields"),
    [
        (b"", []),
        (b",", [b"", b""]),
        (b"1,2,", [b"1", b"2", b""]),
        (b'1,"a,b",3', [b"1", b"a,b", b"3"]),
        (b'"a""b"', [b'a"b']),
        (b'"",x', [b"", b"x"]),
        (b'"two\nlines",1', [b"two\nlines", b"1"]),
    ],
)
def test_csv_records_have_these_fields(record, fields):
    assert csv_fields(record, b",", True) == fields


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ('1,a"b', "Unquoted fields cannot have quotes/CRLFs inside"),
        ("1,a\n", "Unquoted fields cannot have quotes/CRLFs inside"),
        ('1,"a"c', "Quote inside a string has to be escaped by another quote"),
        ('1,"ab', "Quoted field has to end with quote followed by delim or end"),
        ("1", "Expect 2 fields but have 1 in record 0"),
        ("x,a", "Field 0 in record 0 is not a valid int32: x"),
        (",a", "Field 0 is required but missing in record 0"),
        ("2147483648,a", "Field 0 in record 0 is not a valid int32"),
    ],
)
def test_bad_csv_says_where(record, words):
    required = np.zeros([0], np.int32)
    fails(lambda: tf.decode_csv([record], [required, ["x"]]), words)


def test_selected_csv_columns_have_their_own_defaults():
    options = {"select_cols": [1, 2], "na_value": "NA"}
    got = run(lambda: tf.decode_csv(["1,,NA", "4,5,6"], [[7], [8]], **options))
    assert [column.tolist() for column in got] == [[7, 5], [8, 6]]


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e400", np.inf), ("0x10", 16.0), ("0X1p3", 8.0), ("-INF", -np.inf), (" 2 ", 2.0)],
)
def test_numbers_are_read_by_the_rules_of_c(text, value):
    assert run(lambda: tf.string_to_number(text)) == value


@pytest.mark.parametrize("text", ["1_0", "", "1.5f", "3 4"])
def test_what_is_no_number_is_named(text):
    fails(
        lambda: tf.string_to_number(text),
        f"StringToNumberOp could not correctly convert string: {text}",
    )


@pytest.mark.parametrize(
    ("value", "options", "expected"),
    [
        (3.14159, {"width": 10, "fill": "-"}, b"3.141590  "),
        (-3, {"width": 10, "fill": "0"}, b"-000000003"),
        (1.5, {"fill": "+"}, b"+1.500000"),
        (np.float64(1e20), {"shortest": True}, b"1e+20"),
        (b"ab", {"width": 4}, b"  ab"),
        (True, {"width": 9}, b"true"),
    ],
)
def test_as_string_formats_as_printf(value, options, expected):
    assert run(lambda: tf.as_string(value, **options)) == expected


@pytest.mark.parametrize(
    ("value", "options", "words"),
    [
        (1, {"precision": 2}, "precision not supported for datatype int32"),
        (1, {"scientific": True}, "scientific and shortest format not supported"),
        (1.0, {"scientific": True, "shortest": True}, "Cannot select both"),
        (1.0, {"fill": "x"}, 'Fill argument not supported: "x"'),
        (1.0, {"fill": "00"}, "Fill string must be one or fewer characters"),
    ],
)
def test_as_string_refuses_formats_that_make_no_sense(value, options, words):
    fails(lambda: tf.as_string(value, **options), words)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            np.arange(16).reshape(2, 2, 2, 2),
            "[[[[0 1]\n   [2 3]]\n\n  [[4 5]\n   [6 7]]]\n\n\n [[[8 9]",
        ),
        (np.float32([0.1, 1 / 3]), "[0.1 0.333333343]"),
        (np.float64(1 / 3), "0.33333333333333331"),
        (np.array([True]), "[1]"),
        (np.array(["a", "b"]), '["a" "b"]'),
        (np.arange(10), "[0 1 2 ... 7 8 9]"),
    ],
)
def test_format_shows_values_as_tensorflow_prints_them(value, expected):
    assert run(lambda: tf.strings.format("{}", tf.constant(value))).startswith(expected.encode())


def test_splitting_by_white_space_with_a_limit_keeps_the_rest():
    got = run(lambda: tf.strings.split(["hello big world", " lead"], maxsplit=1))
    assert got.values.tolist() == [b"hello", b"big world", b"lead", b""]


def test_a_tensor_survives_serialization():
    for value in (np.float32([1.5, 2]), np.array([[b"a", b"\xff"]], object), np.array(True)):
        kind = tf.as_dtype(value.dtype)
        got = run(lambda v=value, k=kind: tf.parse_tensor(tf.serialize_tensor(v), k))
        np.testing.assert_array_equal(got, value)
    fails(lambda: tf.parse_tensor(tf.serialize_tensor([1.0]), tf.string), "Type mismatch")


def test_raw_bytes_of_both_byte_orders():
    assert run(lambda: tf.decode_raw([b"abcd"], tf.int16)).tolist() == [[25185, 25699]]
    assert run(lambda: tf.decode_raw(b"abcd", tf.int16, little_endian=False)).tolist() == [
        24930,
        25444,
    ]
    fails(lambda: tf.decode_raw(["abcde"], tf.float32), "not a multiple of 4, the size of float")
    fails(lambda: tf.decode_raw(["ab", "abc"], tf.uint8), "to all be the same size")


def test_unicode_encoding_of_single_strings_and_bad_points():
    assert run(lambda: tf.strings.unicode_encode([104, 228], "UTF-8")) == "hä".encode()
    bad = [0x110000, 0xD800, 105]
    assert run(lambda: tf.strings.unicode_encode(bad, "UTF-8", errors="ignore")) == b"i"
    fails(lambda: tf.strings.unicode_encode(bad, "UTF-8", errors="strict"), "out of range")


def test_a_pattern_that_makes_others_backtrack_matches_in_linear_time():
    """Python's `re` would need 2^10000 steps for this."""
    texts = ["a" * 10_000 + "!", "a" * 10_000]
    found = run(lambda: tf.strings.regex_full_match(texts, "(a+)+$"))
    assert found.tolist() == [False, True]
