"""Tables in files: make_csv_dataset, make_batched_features_dataset, ParquetDataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import millrace as tf


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as graph:
        yield graph


def everything(dataset: Any) -> list[Any]:
    following = tf.data.make_one_shot_iterator(dataset).get_next()
    found = []
    with tf.Session() as sess:
        try:
            while True:
                found.append(sess.run(following))
        except tf.errors.OutOfRangeError:
            return found


def test_a_csv_file_gives_named_columns_of_the_types_in_it(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,price,word,big,clicked\n1,2.5,a,5000000000,0\n2,,b,1,1\n3,1e3,,2,1\n")
    dataset = tf.data.experimental.make_csv_dataset(
        str(path), 2, label_name="clicked", num_epochs=1, shuffle=False
    )
    types, label = dataset.output_types
    assert {k: v.name for k, v in types.items()} == {
        "id": "int32",
        "price": "float32",
        "word": "string",
        "big": "int64",
    }
    assert label == tf.int32
    (first, one), (second, two) = everything(dataset)
    assert first["price"].tolist() == [2.5, 0.0]
    assert second["word"].tolist() == [b""]
    assert first["big"].tolist() == [5000000000, 1]
    assert [*one, *two] == [0, 1, 1]


def test_csv_columns_can_be_chosen_and_a_wrong_name_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x,y,z\n1,2,3\n4,5,6\n")
    make = tf.data.experimental.make_csv_dataset
    (batch,) = everything(
        make(str(path), 2, select_columns=["z", "x"], num_epochs=1, shuffle=False)
    )
    assert {k: v.tolist() for k, v in batch.items()} == {"x": [1, 4], "z": [3, 6]}
    with pytest.raises(ValueError, match="there is no column 'w'"):
        make(str(path), 2, select_columns=["w"])
    with pytest.raises(ValueError, match="No files match"):
        make(str(tmp_path / "none*.csv"), 2)


def test_example_files_are_parsed_in_batches(tmp_path: Path) -> None:
    path = str(tmp_path / "a.rec")
    with tf.python_io.TFRecordWriter(path) as writer:
        for i in range(5):
            features = tf.train.Features(
                feature={
                    "x": tf.train.Feature(float_list=tf.train.FloatList(value=[i, i + 1])),
                    "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[i])),
                }
            )
            writer.write(tf.train.Example(features=features).SerializeToString())
    dataset = tf.data.experimental.make_batched_features_dataset(
        path,
        2,
        {"x": tf.FixedLenFeature([2], tf.float32), "y": tf.FixedLenFeature([], tf.int64)},
        label_key="y",
        num_epochs=1,
        shuffle=False,
    )
    found = everything(dataset)
    assert [label.tolist() for _, label in found] == [[0, 1], [2, 3], [4]]
    assert found[1][0]["x"].tolist() == [[2, 3], [3, 4]]


def table(path: Path, start: int, count: int) -> str:
    numbers = np.arange(start, start + count)
    pq.write_table(
        pa.table(
            {
                "id": pa.array(numbers, pa.int64()),
                "price": pa.array(numbers / 2, pa.float32()),
                "word": pa.array([f"w{n}" for n in numbers]),
                "items": pa.array([[int(n)] * (n % 3) for n in numbers], pa.list_(pa.int64())),
            }
        ),
        path,
    )
    return str(path)


def test_parquet_rows_are_dicts_of_columns(tmp_path: Path) -> None:
    files = [table(tmp_path / "a", 0, 3), table(tmp_path / "b", 3, 2)]
    dataset = tf.data.experimental.ParquetDataset(files)
    assert dataset.output_types["word"] == tf.string
    assert dataset.output_shapes["items"].as_list() == [None]
    rows = everything(dataset)
    assert [row["id"] for row in rows] == [0, 1, 2, 3, 4]
    assert [row["word"] for row in rows] == [b"w0", b"w1", b"w2", b"w3", b"w4"]
    assert rows[2]["items"].tolist() == [2, 2]


def test_parquet_columns_are_batched(tmp_path: Path) -> None:
    path = table(tmp_path / "a", 0, 1000)
    dataset = tf.data.experimental.ParquetDataset(path, columns=["price", "id"])
    batches = everything(dataset.shuffle(100, seed=1).batch(64))
    assert sorted(np.concatenate([b["id"] for b in batches])) == list(range(1000))
    assert all(np.array_equal(b["price"], b["id"] / 2) for b in batches)


def test_a_parquet_column_of_lists_is_batched_with_padding(tmp_path: Path) -> None:
    path = table(tmp_path / "a", 1, 3)
    dataset = tf.data.experimental.ParquetDataset(path, columns=["items"])
    (batch,) = everything(dataset.padded_batch(3, {"items": [None]}))
    assert batch["items"].tolist() == [[1, 0], [2, 2], [0, 0]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="different shapes in component 0"):
        everything(dataset.batch(3))


def test_a_parquet_file_that_is_none_is_named(tmp_path: Path) -> None:
    good = table(tmp_path / "a", 0, 3)
    bad = tmp_path / "bad"
    bad.write_bytes(b"this is no parquet file")
    following = tf.data.make_one_shot_iterator(
        tf.data.experimental.ParquetDataset([good, str(bad)], columns=["id"]).batch(3)
    ).get_next()
    with tf.Session() as sess:
        assert sess.run(following)["id"].tolist() == [0, 1, 2]
        with pytest.raises(tf.errors.DataLossError, match="bad' is damaged or no Parquet file"):
            sess.run(following)
    with pytest.raises(ValueError, match="there is no column 'x'"):
        tf.data.experimental.ParquetDataset(good, columns=["x"])
