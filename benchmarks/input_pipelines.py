"""The pipelines that `input.py` measures: TF1 programs for Millrace and TensorFlow alike.

input_pipelines.py millrace|tensorflow NAME FOLDER SECONDS
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

CLICKS, PICTURES, LINES = 40_000, 300, 200_000
NUMBERS = [f"I{i}" for i in range(1, 14)]
CATEGORIES = [f"C{i}" for i in range(1, 27)]


@dataclasses.dataclass(frozen=True)
class Pipeline:
    """A pipeline: what it is called, how many examples an element has, and the dataset."""

    title: str
    batch: int
    dataset: Callable[[Any, str], Any]


def _click_features(tf: Any) -> dict[str, Any]:
    features: dict[str, Any] = {name: tf.FixedLenFeature([1], tf.float32) for name in NUMBERS}
    features |= {name: tf.FixedLenFeature([1], tf.int64) for name in CATEGORIES}
    features["label"] = tf.FixedLenFeature([1], tf.float32)
    return features


def _clicks(tf: Any, folder: str) -> Any:
    features = _click_features(tf)
    dataset = tf.data.TFRecordDataset(os.path.join(folder, "clicks.tfrecord")).repeat()
    dataset = dataset.batch(512)
    return dataset.map(lambda r: tf.parse_example(r, features), num_parallel_calls=2).prefetch(2)


def _csv(tf: Any, folder: str) -> Any:
    defaults = [[0.0]] * 14 + [[0]] * 26
    dataset = tf.data.experimental.CsvDataset(os.path.join(folder, "clicks.csv"), defaults)
    return dataset.repeat().batch(512).prefetch(2)


def _pictures(tf: Any, folder: str) -> Any:
    def decoded(record: Any) -> Any:
        features = {
            "image": tf.FixedLenFeature([], tf.string),
            "label": tf.FixedLenFeature([], tf.int64),
        }
        found = tf.parse_single_example(record, features)
        image = tf.image.decode_jpeg(found["image"], channels=3)
        image = tf.random_crop(image, [224, 224, 3])
        return tf.image.random_flip_left_right(image), found["label"]

    dataset = tf.data.TFRecordDataset(os.path.join(folder, "pictures.tfrecord")).repeat()
    return dataset.map(decoded, num_parallel_calls=2).batch(32).prefetch(2)


def _lines(tf: Any, folder: str) -> Any:
    dataset = tf.data.TextLineDataset(os.path.join(folder, "lines.txt")).repeat()
    dataset = dataset.map(lambda line: tf.string_split([line]).values, num_parallel_calls=2)
    return dataset.padded_batch(128, [None]).prefetch(2)


def _mnist(tf: Any, folder: str) -> Any:
    images = np.load(os.path.join(folder, "images.npy"))
    labels = np.load(os.path.join(folder, "labels.npy"))
    dataset = tf.data.Dataset.from_tensor_slices((images, labels))
    return dataset.shuffle(10000, seed=1).repeat().batch(100).prefetch(2)


PIPELINES = {
    "clicks": Pipeline("TFRecord → parse_example, 13 + 26 features, 512", 512, _clicks),
    "csv": Pipeline("CSV of the same, 512", 512, _csv),
    "pictures": Pipeline("JPEG → crop 224, flip, 32", 32, _pictures),
    "lines": Pipeline("text lines → split → padded batch, 128", 128, _lines),
    "mnist": Pipeline("MNIST-size arrays in memory, shuffled, 100", 100, _mnist),
}


def write_files(folder: str) -> None:
    """Writes what the pipelines read; with Millrace."""
    from PIL import Image

    import millrace as tf

    draw = np.random.default_rng(7)
    numbers = draw.exponential(10.0, (CLICKS, 14)).astype(np.float32)
    categories = draw.integers(0, 1_000_000, (CLICKS, 26))
    names = ["label", *NUMBERS]

    def feature(**lists: Any) -> Any:
        return tf.train.Feature(**lists)

    with (
        tf.python_io.TFRecordWriter(os.path.join(folder, "clicks.tfrecord")) as records,
        open(os.path.join(folder, "clicks.csv"), "w") as table,
    ):
        for row, ids in zip(numbers.tolist(), categories.tolist(), strict=True):
            features = {
                n: feature(float_list=tf.train.FloatList(value=[v]))
                for n, v in zip(names, row, strict=True)
            }
            features |= {
                n: feature(int64_list=tf.train.Int64List(value=[v]))
                for n, v in zip(CATEGORIES, ids, strict=True)
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            records.write(example.SerializeToString())
            table.write(",".join([*(f"{v:.4f}" for v in row), *map(str, ids)]) + "\n")
    with tf.python_io.TFRecordWriter(os.path.join(folder, "pictures.tfrecord")) as records:
        for i in range(PICTURES):
            small = draw.integers(0, 255, (16, 16, 3), dtype=np.uint8)
            packed = io.BytesIO()
            Image.fromarray(small).resize((256, 256)).save(packed, "JPEG", quality=90)
            image = feature(bytes_list=tf.train.BytesList(value=[packed.getvalue()]))
            label = feature(int64_list=tf.train.Int64List(value=[i % 10]))
            features = tf.train.Features(feature={"image": image, "label": label})
            records.write(tf.train.Example(features=features).SerializeToString())
    words = np.array([f"word{i}" for i in range(5000)])
    with open(os.path.join(folder, "lines.txt"), "w") as file:
        for count in draw.integers(4, 30, LINES):
            file.write(" ".join(draw.choice(words, count)) + "\n")
    np.save(os.path.join(folder, "images.npy"), draw.random((60000, 784), dtype=np.float32))
    np.save(os.path.join(folder, "labels.npy"), draw.integers(0, 10, 60000))


def _resident() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def run(library: str, name: str, folder: str, seconds: float) -> dict[str, float]:
    """Examples per second of a pipeline, after a second to warm up."""
    if library == "millrace":
        import millrace as tf
    else:
        import tensorflow.compat.v1 as tf

        tf.disable_v2_behavior()
    pipeline = PIPELINES[name]
    with tf.Graph().as_default():
        iterator = tf.data.make_initializable_iterator(pipeline.dataset(tf, folder))
        element = iterator.get_next()
        # The element is used up on the graph's side: what is measured is the pipeline.
        leaves = list(element.values()) if isinstance(element, dict) else element
        leaves = leaves if isinstance(leaves, (list, tuple)) else [leaves]
        used = tf.group(*leaves)
        with tf.Session() as sess:
            sess.run(iterator.initializer)
            warm = time.perf_counter() + min(1.5, seconds)
            while time.perf_counter() < warm:
                sess.run(used)
            before, batches, start = _resident(), 0, time.perf_counter()
            worked = time.process_time()
            while time.perf_counter() - start < seconds:
                sess.run(used)
                batches += 1
            taken, worked = time.perf_counter() - start, time.process_time() - worked
            grown = _resident() - before
    examples = batches * pipeline.batch
    return {
        "examples_per_second": examples / taken,
        "examples_per_cpu_second": examples / worked,
        "mebibytes_grown": grown,
    }


if __name__ == "__main__":
    library, name, folder, seconds = sys.argv[1:]
    print(json.dumps(run(library, name, folder, float(seconds))))
