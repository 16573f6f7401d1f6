"""MNIST and the tutorial's DataSet.

`tutorial_batches` states the tutorial's algorithm the slow way, shuffling whole arrays; the
batches of a DataSet must be the same.
"""

import gzip
import io
import struct

import numpy as np
import pytest

from millrace.core import dtypes, errors
from millrace.data import mnist
from millrace.examples.tutorials.mnist import input_data
from millrace.graph.defaults import get_default_graph
from millrace.graph.graph import Graph
from millrace.platform import logging


@pytest.fixture(autouse=True)
def numpy_generator_put_back():
    state = np.random.get_state()
    yield
    np.random.set_state(state)


@pytest.fixture(scope="module")
def data_sets(tmp_path_factory):
    """Read only: no test may take a batch from these."""
    return mnist.read_data_sets(str(tmp_path_factory.mktemp("empty")))


def image_file(images):
    count, rows, columns = images.shape
    return gzip.compress(struct.pack(">4I", 2051, count, rows, columns) + images.tobytes())


def label_file(labels):
    return gzip.compress(struct.pack(">2I", 2049, len(labels)) + labels.tobytes())


def write_small_mnist(folder, count=20, seed=0):
    generator = np.random.default_rng(seed)
    images = generator.integers(0, 256, (count, 28, 28), np.uint8)
    labels = generator.integers(0, 10, count, np.uint8)
    for prefix in ("train", "t10k"):
        (folder / f"{prefix}-images-idx3-ubyte.gz").write_bytes(image_file(images))
        (folder / f"{prefix}-labels-idx1-ubyte.gz").write_bytes(label_file(labels))
    return images, labels


def small_set(count=10, **kwargs):
    images = np.arange(count * 4, dtype=np.uint8).reshape(count, 2, 2, 1)
    return mnist.DataSet(images, np.arange(count, dtype=np.uint8), **kwargs)


def tutorial_batches(count, sizes, seed, shuffle):
    """The labels of each batch, and the epoch after it, by shuffling an array of all labels."""
    np.random.seed(seed)
    labels = np.arange(count)
    place = epoch = 0
    for size in sizes:
        if epoch == 0 and place == 0 and shuffle:
            order = np.arange(count)
            np.random.shuffle(order)
            labels = labels[order]
        if place + size <= count:
            batch, place = labels[place : place + size], place + size
        else:
            epoch += 1
            rest = labels[place:]
            if shuffle:
                order = np.arange(count)
                np.random.shuffle(order)
                labels = labels[order]
            place = size - len(rest)
            batch = np.concatenate([rest, labels[:place]])
        yield batch.tolist(), epoch


def test_the_shipped_set_has_the_promised_sizes_and_types(data_sets):
    train, validation, test = data_sets
    assert (train.num_examples, validation.num_examples, test.num_examples) == (55000, 5000, 10000)
    assert test.images.shape == (10000, 784)
    assert test.images.dtype == np.float32
    assert (test.images.min(), test.images.max()) == (0.0, 1.0)
    assert test.labels.shape == (10000,)
    assert test.labels.dtype == np.uint8
    assert train.labels.shape == (55000,)
    assert train.epochs_completed == 0


def test_the_first_labels_are_mnists(data_sets):
    assert data_sets.test.labels[:5].tolist() == [7, 2, 1, 0, 4]
    assert data_sets.validation.labels[:5].tolist() == [5, 0, 4, 1, 9]
    assert np.bincount(data_sets.test.labels).tolist() == [
        980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009,
    ]  # fmt: skip


def test_images_are_scaled_as_the_tutorial_does(tmp_path):
    images, _ = write_small_mnist(tmp_path)
    found = mnist.read_data_sets(str(tmp_path), validation_size=0).train.images
    expected = np.multiply(images.reshape(20, 784).astype(np.float32), 1.0 / 255.0)
    np.testing.assert_array_equal(found, expected)


def test_uint8_images_without_reshape_keep_bytes_and_shape(tmp_path):
    images, labels = write_small_mnist(tmp_path)
    sets = mnist.read_data_sets(str(tmp_path), dtype=dtypes.uint8, reshape=False, validation_size=5)
    assert sets.train.images.dtype == np.uint8
    np.testing.assert_array_equal(sets.train.images, images[5:, ..., None])
    np.testing.assert_array_equal(sets.validation.images, images[:5, ..., None])
    np.testing.assert_array_equal(sets.train.labels, labels[5:])
    np.testing.assert_array_equal(sets.test.labels, labels)


def test_one_hot_labels_are_float64_rows_with_a_single_one(tmp_path):
    _, labels = write_small_mnist(tmp_path)
    test = mnist.read_data_sets(str(tmp_path), one_hot=True, validation_size=0).test
    assert test.labels.dtype == np.float64
    assert test.labels.shape == (20, 10)
    assert test.labels.sum(axis=1).tolist() == [1.0] * 20
    np.testing.assert_array_equal(test.labels.argmax(axis=1), labels)


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("sizes", [[4] * 12, [10] * 4, [3, 7, 1, 9, 5, 10, 2], [1] * 25])
def test_batches_are_those_of_the_tutorial(sizes, shuffle):
    expected = list(tutorial_batches(10, sizes, 7, shuffle))
    found = small_set(seed=7)
    for size, (labels, epoch) in zip(sizes, expected, strict=True):
        images, got = found.next_batch(size, shuffle=shuffle)
        assert got.tolist() == labels
        assert found.epochs_completed == epoch
        # Each image still goes with its label.
        pixels = np.float32(1.0 / 255.0) * (np.asarray(labels)[:, None] * 4 + np.arange(4))
        np.testing.assert_allclose(images, pixels, rtol=1e-6)


def test_images_and_labels_show_the_order_of_the_epoch():
    data = small_set(seed=3)
    before = data.labels.tolist()
    images, labels = data.next_batch(4)
    assert data.labels.tolist() != before
    np.testing.assert_array_equal(data.images[:4], images)
    np.testing.assert_array_equal(data.labels[:4], labels)
    assert data.images is data.images


def test_an_epoch_hands_out_every_example_once():
    data = small_set(seed=1)
    labels = np.concatenate([data.next_batch(5)[1] for _ in range(2)])
    assert sorted(labels.tolist()) == list(range(10))
    assert data.epochs_completed == 0
    data.next_batch(1)
    assert data.epochs_completed == 1


def test_the_same_seed_gives_the_same_batches_and_another_seed_others():
    def labels(seed):
        data = small_set(100, seed=seed)
        return data.next_batch(100)[1].tolist()

    assert labels(5) == labels(5)
    assert labels(5) != labels(6)


def test_the_seed_of_the_graph_counts_when_none_is_given():
    def labels(graph_seed, seed=None):
        with Graph().as_default():
            get_default_graph().seed = graph_seed
            return small_set(100, seed=seed).next_batch(100)[1].tolist()

    assert labels(42) == labels(42)
    assert labels(42) != labels(43)
    assert labels(42, seed=5) == labels(43, seed=5)
    np.random.seed(42)
    expected = np.arange(100)
    np.random.shuffle(expected)
    assert labels(42) == expected.tolist()


def test_batches_are_private_and_aligned_for_xla():
    data = small_set()
    first, _ = data.next_batch(5, shuffle=False)
    assert first.ctypes.data % 64 == 0
    assert first.flags.c_contiguous
    first[:] = -1
    assert data.images.min() >= 0
    assert data.next_batch(10, shuffle=False)[0].min() >= 0


def test_fake_data_gives_ones():
    sets = mnist.read_data_sets("unused", fake_data=True, one_hot=True)
    assert sets.train.num_examples == 10000
    images, labels = sets.train.next_batch(2, fake_data=True)
    assert images == [[1] * 784] * 2
    assert labels == [[1] + [0] * 9] * 2
    plain = mnist.read_data_sets("unused", fake_data=True)
    assert plain.test.next_batch(2, fake_data=True)[1] == [0, 0]


def test_a_validation_size_out_of_range_is_refused(tmp_path):
    write_small_mnist(tmp_path)
    for size in (-1, 21):
        with pytest.raises(ValueError, match=f"between 0 and 20. Received: {size}"):
            mnist.read_data_sets(str(tmp_path), validation_size=size)
    assert mnist.read_data_sets(str(tmp_path), validation_size=20).train.num_examples == 0


def test_an_image_type_other_than_uint8_and_float32_is_refused():
    with pytest.raises(TypeError, match="Invalid image dtype.*expected uint8 or float32"):
        small_set(dtype=dtypes.float64)
    assert small_set(dtype=np.uint8).images.dtype == np.uint8


def test_images_and_labels_must_be_equally_many():
    with pytest.raises(AssertionError, match="images.shape"):
        mnist.DataSet(np.zeros((3, 2, 2, 1)), np.zeros(2))


@pytest.fixture
def warnings(monkeypatch):
    told = []
    monkeypatch.setattr(logging, "warning", lambda text, *args: told.append(text % args))
    return told


def test_missing_files_come_from_the_package_with_a_warning_if_others_are_there(tmp_path, warnings):
    write_small_mnist(tmp_path)
    (tmp_path / mnist.TEST_LABELS).unlink()
    (tmp_path / mnist.TEST_IMAGES).unlink()
    sets = mnist.read_data_sets(str(tmp_path), validation_size=0)
    assert (sets.train.num_examples, sets.test.num_examples) == (20, 10000)
    assert len(warnings) == 1
    assert "t10k-images-idx3-ubyte.gz, t10k-labels-idx1-ubyte.gz not found" in warnings[0]


def test_an_empty_directory_is_no_reason_for_a_warning_but_another_url_is(
    tmp_path, warnings, monkeypatch
):
    def stop(name):
        raise RuntimeError("this test ends before a file is read")

    monkeypatch.setattr(mnist, "_shipped", stop)
    for url, count in ((mnist.DEFAULT_SOURCE_URL, 0), ("https://example.com/fashion/", 1)):
        with pytest.raises(RuntimeError, match="this test ends"):
            mnist.read_data_sets(str(tmp_path), source_url=url)
        assert len(warnings) == count
    assert "nothing is downloaded from https://example.com/fashion/" in warnings[0]


def test_a_damaged_shipped_file_is_data_loss(monkeypatch):
    monkeypatch.setitem(mnist._CHECKSUMS, mnist.TEST_LABELS, "0" * 32)
    with pytest.raises(errors.DataLossError, match="t10k-labels-idx1-ubyte.gz is damaged"):
        mnist._shipped(mnist.TEST_LABELS)


def test_every_shipped_file_has_its_checksum():
    for name in mnist._CHECKSUMS:
        assert len(mnist._shipped(name)) > 10000


def test_without_the_package_of_the_files_the_sentence_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(mnist, "_PACKAGE", "no_such_package")
    monkeypatch.setattr(mnist, "_IN_A_CLONE", tmp_path / "nowhere")
    with pytest.raises(errors.NotFoundError, match=r"pip install 'millrace-tf\[mnist\]'"):
        mnist.read_data_sets(str(tmp_path))


def test_a_file_that_is_not_mnists_is_refused(tmp_path):
    write_small_mnist(tmp_path)
    (tmp_path / mnist.TRAIN_IMAGES).write_bytes(label_file(np.zeros(100, np.uint8)))
    with pytest.raises(ValueError, match="Invalid magic number 2049 in MNIST image file"):
        mnist.read_data_sets(str(tmp_path))
    (tmp_path / mnist.TRAIN_IMAGES).write_bytes(gzip.compress(struct.pack(">4I", 2051, 9, 28, 28)))
    with pytest.raises(ValueError, match="is cut off.*announces 9 items, 7072 bytes, and has 16"):
        mnist.read_data_sets(str(tmp_path))
    (tmp_path / mnist.TRAIN_IMAGES).write_bytes(b"not gzip")
    with pytest.raises(errors.DataLossError, match="is not a complete gzip file"):
        mnist.read_data_sets(str(tmp_path))


def test_extract_reads_open_files(tmp_path):
    images, labels = write_small_mnist(tmp_path)
    with open(tmp_path / mnist.TRAIN_IMAGES, "rb") as file:
        np.testing.assert_array_equal(mnist.extract_images(file), images[..., None])
    found = mnist.extract_labels(io.BytesIO(label_file(labels)), one_hot=True, num_classes=12)
    assert found.shape == (20, 12)
    np.testing.assert_array_equal(found.argmax(axis=1), labels)


def test_the_tutorials_module_has_the_same_functions():
    assert input_data.read_data_sets is mnist.read_data_sets
    assert input_data.DataSet is mnist.DataSet
