"""CSV text that pyarrow reads against the same text, read line by line."""

from __future__ import annotations

import pathlib
import random
from typing import Any

import numpy as np
import pytest

from millrace.core import dtypes
from millrace.core.tensor_shape import scalar
from millrace.data.pipeline import csv_columns
from millrace.data.pipeline.csv_files import CsvFiles, CsvOptions
from millrace.data.pipeline.dataset import Context
from millrace.data.pipeline.element import Table, arrays, stacked

TYPES = [dtypes.float32, dtypes.int64, dtypes.string, dtypes.int32, dtypes.float64]
FIELDS = [
    ["1.5", "-2e3", "", "nan", "inf", " 7", "NA", "0.1"],
    ["1", "-9223372036854775808", "", "NA", "12"],
    ["", "a", "two words", "\xe9".encode().decode("latin-1"), "NA"],
    ["5", "", "-7", "2147483647"],
    ["3", "1e300", "", "2.5"],
]
ODD = ['"quoted, so"', "0x10", "+4", "2147483648", "x", "1,2", "1_0", "", "3\r"]


def _elements(path: pathlib.Path, options: CsvOptions, defaults: list[Any]) -> list[Any]:
    dataset = CsvFiles([str(path)], "", options, defaults, TYPES, [scalar()] * 5)
    iterator, found = dataset.iterator(Context("test")), []
    while True:
        try:
            taken = iterator.take(7)
        except Exception as error:
            found.append(str(error))
            continue
        if not taken:
            iterator.close()
            return found
        found += [[a.item() for a in arrays(element, dataset.kinds)] for element in taken]


@pytest.mark.parametrize("seed", range(25))
def test_pyarrow_and_the_reader_of_lines_agree(
    seed: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    draw = random.Random(seed)
    lines = []
    for _ in range(draw.randint(1, 60)):
        row = [draw.choice(fields) for fields in FIELDS]
        if draw.random() < 0.01 * (seed % 4):
            row[draw.randrange(5)] = draw.choice(ODD)
        if draw.random() < 0.003 * (seed % 4):
            row = row[:-1]
        lines.append(",".join(row))
    ending = draw.choice(["\n", ""])
    path = tmp_path / "table.csv"
    path.write_bytes(("\n".join(lines) + ending).encode("latin-1"))
    defaults = [np.array([0.5]), np.array([3]), np.array([b"none"], object), np.array([1]), []]
    if seed % 2:
        defaults[4] = np.array([2.0])
    options = CsvOptions(bool(seed % 3), ",", True, "NA", None)
    found = _elements(path, options, defaults)
    monkeypatch.setattr(csv_columns.CsvColumns, "read", lambda self, text: None)
    wanted = _elements(path, options, defaults)
    assert len(found) == len(wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_equal(ours, theirs)


def test_ordinary_text_is_read_by_pyarrow() -> None:
    pytest.importorskip("pyarrow")
    reader = csv_columns.CsvColumns(";", True, "", [0, 2], TYPES[1:3], [None, b"-"])
    table = reader.read(b"1;x;abc\n2;y;\n")
    assert table is not None
    assert [column.tolist() for column in table.columns] == [[1, 2], [b"abc", b"-"]]
    assert reader.read(b";x;abc\n") is None  # A field that must be there is missing.
    assert reader.read(b'1;"x";abc\n') is None


def test_a_batch_of_rows_of_several_tables_has_them_in_order() -> None:
    first = Table([np.arange(6), np.array([b"a"] * 6, object)])
    second = Table([np.arange(6, 9), np.array([b"b"] * 3, object)])
    numbers, names = stacked([*first.rows(1, 6), *second.rows(0, 3)], [np.int64, object])
    assert numbers.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert names.tolist() == [b"a"] * 5 + [b"b"] * 3
