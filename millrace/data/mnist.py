"""MNIST behind TensorFlow 1's tutorial interface.

Nothing is ever downloaded: the files are in a distribution of their own, `millrace-tf-mnist`, and
in a clone of the repository. The batches are exactly those of TensorFlow's tutorial, drawn from
NumPy's global generator as there, but a shuffle only permutes indices: a DataSet keeps the raw
bytes and scales a batch when it is taken, which spares an epoch the copy of the whole array and
the process three quarters of the memory.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import math
import zlib
from collections import namedtuple
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from millrace.core import aligned, dtypes, errors
from millrace.graph.defaults import get_default_graph
from millrace.platform import gfile, logging

__all__ = [
    "DEFAULT_SOURCE_URL",
    "DataSet",
    "Datasets",
    "dense_to_one_hot",
    "extract_images",
    "extract_labels",
    "load_mnist",
    "read_data_sets",
]

Array = npt.NDArray[Any]

DEFAULT_SOURCE_URL = "https://storage.googleapis.com/cvdf-datasets/mnist/"

TRAIN_IMAGES = "train-images-idx3-ubyte.gz"
TRAIN_LABELS = "train-labels-idx1-ubyte.gz"
TEST_IMAGES = "t10k-images-idx3-ubyte.gz"
TEST_LABELS = "t10k-labels-idx1-ubyte.gz"

# MD5 of the shipped files after decompression.
_CHECKSUMS = {
    TRAIN_IMAGES: "6bbc9ace898e44ae57da46a324031adb",
    TRAIN_LABELS: "a25bea736e30d166cdddb491f175f624",
    TEST_IMAGES: "2646ac647ad5339dbf082846283269ea",
    TEST_LABELS: "27ae3e4e09519cfbb04c329615203637",
}

_IMAGE_MAGIC, _LABEL_MAGIC = 2051, 2049
#: EMNIST, the largest data set of this kind, has 550 MB.
_MOST_BYTES = 2 << 30
_LARGEST_SEED = 2**31 - 1

Datasets = namedtuple("Datasets", ["train", "validation", "test"])


def _parse_idx(data: bytes, magic: int, dimensions: int, kind: str, name: Any) -> Array:
    """Reads an idx file: magic number, sizes, bytes."""
    header_bytes = 4 * (1 + dimensions)
    if len(data) < header_bytes:
        raise ValueError(f"MNIST {kind} file is cut off after {len(data)} bytes: {name}")
    found, *shape = (int(each) for each in np.frombuffer(data, ">u4", 1 + dimensions))
    if found != magic:
        raise ValueError(f"Invalid magic number {found} in MNIST {kind} file: {name}")
    expected = header_bytes + math.prod(shape)
    if len(data) < expected:
        raise ValueError(
            f"MNIST {kind} file is cut off: {name} announces {shape[0]} items, {expected} bytes, "
            f"and has {len(data)}"
        )
    return np.frombuffer(data, np.uint8, math.prod(shape), header_bytes).reshape(shape)


def _content(f: Any) -> bytes:
    """Returns the decompressed content of an open file.

    Raises:
      DataLossError: It is not compressed, is cut off, or far larger than any such file.
    """
    name = getattr(f, "name", f)
    try:
        with gzip.GzipFile(fileobj=cast(BinaryIO, f)) as stream:
            content = stream.read(_MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise errors.DataLossError(
            None, None, f"{name} is not a complete gzip file: {error}"
        ) from None
    if len(content) > _MOST_BYTES:
        raise errors.DataLossError(
            None, None, f"{name} is not a file of MNIST: it has more than {_MOST_BYTES} bytes"
        )
    return content


def extract_images(f: Any) -> Array:
    """Returns the images in an open gzipped idx file as uint8 [number, rows, columns, 1].

    Raises:
      ValueError: It is no such file.
    """
    name = getattr(f, "name", f)
    return _parse_idx(_content(f), _IMAGE_MAGIC, 3, "image", name)[..., np.newaxis]


def extract_labels(f: Any, one_hot: bool = False, num_classes: int = 10) -> Array:
    """Returns the labels in an open gzipped idx file: uint8 [number], or rows with a single 1.

    Raises:
      ValueError: It is no such file.
    """
    name = getattr(f, "name", f)
    labels = _parse_idx(_content(f), _LABEL_MAGIC, 1, "label", name)
    return dense_to_one_hot(labels, num_classes) if one_hot else labels


def dense_to_one_hot(labels_dense: Array, num_classes: int) -> Array:
    """Returns a float64 row per label, 1 in the label's column and 0 elsewhere."""
    one_hot = np.zeros((len(labels_dense), num_classes))
    one_hot[np.arange(len(labels_dense)), labels_dense.ravel()] = 1
    return one_hot


def _seed_numpy(seed: int | None) -> None:
    """Seeds NumPy's global generator as TensorFlow's DataSet does.

    A seed that is given counts; else that of the default graph (tf.set_random_seed); else chance.
    """
    graph_seed = get_default_graph().seed
    if seed is None:
        np.random.seed(None if graph_seed is None else graph_seed % _LARGEST_SEED)
    elif graph_seed == 0 and seed == 0:
        np.random.seed(_LARGEST_SEED)  # TensorFlow keeps (0, 0) for "not seeded"
    else:
        np.random.seed(seed % _LARGEST_SEED)


class DataSet:
    """Images with their labels, handed out in batches.

    Args:
      images: uint8 [number, rows, columns, depth].
      labels: One entry per image.
      fake_data: No data at all: 10,000 examples are claimed, and `next_batch(fake_data=True)`
        returns ones.
      one_hot: With fake_data, the form of the labels.
      dtype: float32 scales the images to [0, 1]; uint8 leaves them as they are.
      reshape: Flatten an image to rows * columns (depth must be 1).
      seed: For NumPy's global generator, which shuffles.

    Raises:
      TypeError: Another dtype.
    """

    def __init__(
        self,
        images: Any,
        labels: Any,
        fake_data: bool = False,
        one_hot: bool = False,
        dtype: Any = dtypes.float32,
        reshape: bool = True,
        seed: int | None = None,
    ) -> None:
        _seed_numpy(seed)
        dtype = dtypes.as_dtype(dtype).base_dtype
        if dtype not in (dtypes.uint8, dtypes.float32):
            raise TypeError(f"Invalid image dtype {dtype!r}, expected uint8 or float32")
        self.one_hot = one_hot
        images, labels = np.asarray(images), np.asarray(labels)
        if fake_data:
            self._num_examples = 10000
        else:
            assert images.shape[0] == labels.shape[0], (
                f"images.shape: {images.shape} labels.shape: {labels.shape}"
            )
            self._num_examples = images.shape[0]
            if reshape:
                assert images.shape[3] == 1
                images = images.reshape(images.shape[0], images.shape[1] * images.shape[2])
        # As they were given; `_order` says which of them comes at which place now.
        self._given_images = images
        self._given_labels = labels
        self._scales = dtype == dtypes.float32 and not fake_data
        self._order: Array = np.arange(len(images))
        # What `images` and `labels` return, made when asked for; None after a shuffle.
        self._images: Array | None = None
        self._labels: Array | None = None
        self._epochs_completed = 0
        self._index_in_epoch = 0

    @property
    def images(self) -> Array:
        """All images, in the order in which this epoch hands them out."""
        if self._images is None:
            self._images = self._take_images(self._order)
        return self._images

    @property
    def labels(self) -> Array:
        """All labels, in the order of the images."""
        if self._labels is None:
            self._labels = self._given_labels[self._order]
        return self._labels

    @property
    def num_examples(self) -> int:
        """How many examples there are."""
        return self._num_examples

    @property
    def epochs_completed(self) -> int:
        """How many times all examples were handed out."""
        return self._epochs_completed

    def _take_images(self, indices: Array) -> Array:
        taken: Array = self._given_images.take(indices, axis=0)
        if not self._scales:
            return taken
        scaled: Array = aligned.empty(taken.shape, np.float32)
        np.copyto(scaled, taken, casting="unsafe")
        np.multiply(scaled, np.float32(1.0 / 255.0), out=scaled)
        return scaled

    def _shuffle(self) -> None:
        permutation = np.arange(self._num_examples)
        np.random.shuffle(permutation)
        self._order = self._order[permutation]
        self._images = self._labels = None

    def next_batch(
        self, batch_size: int, fake_data: bool = False, shuffle: bool = True
    ) -> tuple[Any, Any]:
        """Returns the next `batch_size` images and their labels.

        The examples are shuffled before the first and after every epoch; a batch that reaches
        over the end of an epoch is completed from the next one.

        Args:
          batch_size: How many; at most `num_examples`.
          fake_data: Return lists of ones instead.
          shuffle: False keeps the order as it is.
        """
        if fake_data:
            fake_label: Any = [1] + [0] * 9 if self.one_hot else 0
            return [[1] * 784 for _ in range(batch_size)], [fake_label for _ in range(batch_size)]
        start = self._index_in_epoch
        if self._epochs_completed == 0 and start == 0 and shuffle:
            self._shuffle()
        if start + batch_size > self._num_examples:
            self._epochs_completed += 1
            rest = self._order[start : self._num_examples]
            if shuffle:
                self._shuffle()
            self._index_in_epoch = batch_size - (self._num_examples - start)
            indices = np.concatenate((rest, self._order[: self._index_in_epoch]))
        else:
            self._index_in_epoch += batch_size
            indices = self._order[start : self._index_in_epoch]
        return self._take_images(indices), self._given_labels.take(indices, axis=0)


#: What the distribution `millrace-tf-mnist` installs, and where a clone has it.
_PACKAGE = "millrace_mnist"
_IN_A_CLONE = Path(__file__).parents[2] / "packages" / "mnist" / _PACKAGE


def _folder() -> Path | None:
    """Where the files are, if they are installed or this is a clone."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is not None and spec.submodule_search_locations:
        return Path(spec.submodule_search_locations[0])
    return _IN_A_CLONE if _IN_A_CLONE.is_dir() else None


def _shipped(file_name: str) -> bytes:
    """Returns the content of a shipped file, verified."""
    folder = _folder()
    if folder is None:
        raise errors.NotFoundError(
            None,
            None,
            f"{file_name} is neither in the folder that was given, nor is the package of MNIST's "
            "files installed: pip install 'millrace-tf[mnist]'",
        )
    packed = (folder / file_name).read_bytes()
    try:
        data = gzip.decompress(packed)
    except (OSError, EOFError) as error:
        raise errors.DataLossError(
            None,
            None,
            f"the shipped MNIST file {file_name} is damaged: {error}; reinstall millrace-tf-mnist",
        ) from error
    found = hashlib.md5(data, usedforsecurity=False).hexdigest()
    if found != _CHECKSUMS[file_name]:
        raise errors.DataLossError(
            None,
            None,
            f"the shipped MNIST file {file_name} is damaged: its MD5 is {found}, should be "
            f"{_CHECKSUMS[file_name]}; reinstall millrace-tf-mnist",
        )
    return data


class _Source:
    """Where read_data_sets finds its four files: in a directory, else as shipped."""

    def __init__(self, directory: str, source_url: str) -> None:
        names = {name: gfile.join(directory, name) for name in _CHECKSUMS}
        self._found = {name: path for name, path in names.items() if gfile.exists(path)}
        missing = sorted(names.keys() - self._found.keys())
        if missing and (self._found or source_url != DEFAULT_SOURCE_URL):
            # The shipped files are then perhaps not what the program means.
            logging.warning(
                "%s not found in %s; nothing is downloaded from %s, the shipped MNIST is used "
                "in place of them",
                ", ".join(missing),
                directory,
                source_url,
            )

    def _content(self, file_name: str) -> tuple[bytes, str]:
        path = self._found.get(file_name)
        if path is None:
            return _shipped(file_name), file_name
        with gfile.GFile(path, "rb") as f:
            return _content(f), path

    def images(self, file_name: str) -> Array:
        data, name = self._content(file_name)
        return _parse_idx(data, _IMAGE_MAGIC, 3, "image", name)[..., np.newaxis]

    def labels(self, file_name: str, one_hot: bool) -> Array:
        data, name = self._content(file_name)
        labels = _parse_idx(data, _LABEL_MAGIC, 1, "label", name)
        return dense_to_one_hot(labels, 10) if one_hot else labels


def read_data_sets(
    train_dir: Any,
    fake_data: bool = False,
    one_hot: bool = False,
    dtype: Any = dtypes.float32,
    reshape: bool = True,
    validation_size: int = 5000,
    seed: int | None = None,
    source_url: str = DEFAULT_SOURCE_URL,
) -> Datasets:
    """Returns MNIST as `train` (55,000 examples), `validation` (5,000) and `test` (10,000).

    Args:
      train_dir: Each of the four gzipped idx files is read from here if it is there, else from
        the package millrace-tf-mnist.
      fake_data: No data, see DataSet.
      one_hot: Labels as rows of ten with a single 1, instead of numbers.
      dtype: float32 scales the images to [0, 1]; uint8 leaves them as they are.
      reshape: Images as rows of 784, instead of 28 x 28 x 1.
      validation_size: How many of the 60,000 training examples go to `validation`.
      seed: For the shuffling, see DataSet.
      source_url: Nothing is downloaded; another than the default is warned of if files are
        missing.

    Raises:
      ValueError: `validation_size` is negative or too large, or a file is none of MNIST's.
      DataLossError: A file is damaged.
      NotFoundError: A file is missing, and millrace-tf-mnist is not installed.
    """
    if fake_data:

        def fake() -> DataSet:
            return DataSet([], [], fake_data=True, one_hot=one_hot, dtype=dtype, seed=seed)

        return Datasets(train=fake(), validation=fake(), test=fake())

    source = _Source(gfile.join(train_dir), source_url or DEFAULT_SOURCE_URL)
    train_images = source.images(TRAIN_IMAGES)
    train_labels = source.labels(TRAIN_LABELS, one_hot)
    test_images = source.images(TEST_IMAGES)
    test_labels = source.labels(TEST_LABELS, one_hot)
    if not 0 <= validation_size <= len(train_images):
        raise ValueError(
            f"Validation size should be between 0 and {len(train_images)}. "
            f"Received: {validation_size}."
        )

    def data_set(images: Array, labels: Array) -> DataSet:
        return DataSet(images, labels, dtype=dtype, reshape=reshape, seed=seed)

    return Datasets(
        train=data_set(train_images[validation_size:], train_labels[validation_size:]),
        validation=data_set(train_images[:validation_size], train_labels[:validation_size]),
        test=data_set(test_images, test_labels),
    )


def load_mnist(train_dir: Any = "MNIST-data") -> Datasets:
    """Returns `read_data_sets(train_dir)`."""
    return read_data_sets(train_dir)
