"""Tables and the text files that fill them. The texts of errors are TensorFlow 2.21's."""

import numpy as np
import pytest

from millrace.core import errors
from millrace.protocol.lookup_table import DenseTable, MutableTable, StaticTable, parse_lines


def strings(*texts):
    array = np.empty(len(texts), object)
    array[:] = texts
    return array


def ints(*values):
    return np.array(values, np.int64)


def test_a_static_table_answers_after_it_was_filled():
    table = StaticTable("t", np.int64)
    with pytest.raises(errors.FailedPreconditionError, match="^Table not initialized"):
        table.find(strings(b"a"), np.array(-1))
    table.fill([(b"a", 1), (b"b", 2)])
    found = table.find(strings(b"b", b"z", b"a").reshape(3, 1), np.array(-1))
    assert found.dtype == np.int64 and found.tolist() == [[2], [-1], [1]]
    assert len(table) == 2


def test_a_static_table_is_filled_again_only_with_the_same_entries():
    table = StaticTable("t", np.int64)
    table.fill([(b"a", 1)])
    table.fill([(b"a", 1)])
    with pytest.raises(errors.FailedPreconditionError, match="different data"):
        table.fill([(b"a", 2)])
    for change in (lambda: table.insert([(b"b", 1)]), lambda: table.remove(strings(b"a"))):
        with pytest.raises(errors.UnimplementedError):
            change()


def test_a_key_has_one_value():
    table = StaticTable("t", np.int64)
    table.fill([(b"a", 1), (b"a", 1)])
    with pytest.raises(
        errors.FailedPreconditionError,
        match="HashTable has different value for same key. Key a has 1 and trying to add value 2",
    ):
        StaticTable("t", np.int64).fill([(b"a", 1), (b"a", 2)])


def test_each_key_may_have_a_default_of_its_own():
    table = MutableTable("t", np.int64)
    table.insert([(7, 70)])
    assert table.find(ints(7, 8), ints(-1, -2)).tolist() == [70, -2]
    with pytest.raises(
        ValueError, match=r"Expected shape \[\] or \[2\] for default value, got \[3\]"
    ):
        table.find(ints(7, 8), ints(1, 2, 3))


def test_a_mutable_table_of_vectors_changes():
    table = MutableTable("t", np.float32, (2,))
    values = np.array([[1, 2], [3, 4]], np.float32)
    table.insert(table.pairs(ints(1, 2), values))
    values[:] = 0  # what was inserted does not follow
    assert table.find(ints(2, 9), np.array([5, 6], np.float32)).tolist() == [[3, 4], [5, 6]]
    table.remove(ints(2, 77))
    keys, exported = table.export(np.int64)
    assert keys.tolist() == [1] and exported.tolist() == [[1, 2]]
    with pytest.raises(ValueError, match=r"Expected shape \[1,2\] for value, got \[1\]"):
        table.pairs(ints(1), np.array([1.0]))


def test_filling_a_mutable_table_replaces_everything():
    table = MutableTable("t", np.int64)
    table.insert([(1, 10)])
    table.fill([(2, 20)])
    assert table.export(np.int64)[0].tolist() == [2]


def test_a_dense_table_has_two_keys_that_cannot_be_used():
    table = DenseTable("t", np.int64, (), empty_key=0, deleted_key=-5)
    with pytest.raises(ValueError, match="Using the empty_key as a table key is not allowed"):
        table.insert([(0, 1)])
    with pytest.raises(ValueError, match="Using the deleted_key as a table key is not allowed"):
        table.find(ints(-5), np.array(-1))
    table.fill([(0, 0), (3, 30), (-5, 0)])  # free places of a table that TensorFlow saved
    assert table.export(np.int64)[0].tolist() == [3]


def parse(data, key=(-2, "string"), value=(-1, "int64"), vocab_size=-1, delimiter=b" ", offset=0):
    return parse_lines("f.txt", data, key, value, vocab_size, delimiter, offset)


def test_lines_map_to_their_numbers_and_back():
    assert parse(b"a\nb\r\nc") == [(b"a", 0), (b"b", 1), (b"c", 2)]
    assert parse(b"a\n", key=(-1, "int64"), value=(-2, "string")) == [(0, b"a")]
    assert parse(b"a\nb\n", offset=10) == [(b"a", 10), (b"b", 11)]
    assert parse(b"a\nb\nc\n", vocab_size=2) == [(b"a", 0), (b"b", 1)]


def test_columns_are_parsed_by_their_types():
    data = b"apple 5\nbanana 7\n"
    assert parse(data, (0, "string"), (1, "int64")) == [(b"apple", 5), (b"banana", 7)]
    assert parse(b"1 0.1\n", (0, "int64"), (1, "float32")) == [(1, float(np.float32(0.1)))]
    assert parse(b"5\n", (-2, "int64"), (-1, "int64")) == [(5, 0)]


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (
            b"apple 5\n",
            {"key": (0, "string"), "value": (2, "int64")},
            r"Invalid number of columns in f.txt line 0 \(apple 5\) : expected at least 3 got 2",
        ),
        (
            b"apple 5\n",
            {"key": (1, "string"), "value": (0, "int64")},
            "Field apple in line 0 is not a valid int64.",
        ),
        (b"a\n\nb", {}, "Invalid content in f.txt: empty line found at position 3."),
        (b"a\n", {"vocab_size": 9}, "Invalid vocab_size in f.txt: expected 9 but got 1"),
        (b"a\n", {"delimiter": b"ab"}, "delimiter should be only 1 char"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(data, options, message):
    with pytest.raises(ValueError, match=message):
        parse(data, **options)


def test_an_empty_file_is_out_of_range():
    with pytest.raises(errors.OutOfRangeError):
        parse(b"")
