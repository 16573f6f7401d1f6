"""`import tensorflow` on Millrace."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator

import pytest

import millrace
from millrace.compat import tensorflow_import


@pytest.fixture(autouse=True)
def _installed() -> Iterator[None]:
    tensorflow_import.install()
    yield
    tensorflow_import.uninstall()
    assert "tensorflow" not in sys.modules


@pytest.mark.parametrize(
    ("path", "name", "ours"),
    [
        ("tensorflow", "Session", millrace.Session),
        ("tensorflow.compat.v1", "Session", millrace.Session),
        ("tensorflow.compat.v1.train", "Saver", millrace.train.Saver),
        ("tensorflow.train", "Server", millrace.train.Server),
        ("tensorflow.python.ops.array_ops", "concat", millrace.concat),
        ("tensorflow.python.ops.math_ops", "tanh", millrace.tanh),
        ("tensorflow.python.ops.rnn_cell_impl", "LSTMStateTuple", None),
        ("tensorflow.python.framework.errors", "AbortedError", millrace.errors.AbortedError),
        ("tensorflow.python.platform.gfile", "Exists", millrace.gfile.Exists),
        ("tensorflow.python.client.timeline", "Timeline", None),
        ("tensorflow.core.protobuf.config_pb2", "ConfigProto", millrace.ConfigProto),
        ("tensorflow.contrib.rnn", "BasicLSTMCell", millrace.nn.rnn_cell.BasicLSTMCell),
        ("tensorflow.contrib.framework", "get_or_create_global_step", None),
        ("tensorflow.contrib.learn.python.learn.datasets.mnist", "read_data_sets", None),
        ("tensorflow.examples.tutorials.mnist.input_data", "read_data_sets", None),
    ],
)
def test_a_path_of_tensorflows_answers_with_our_name(path: str, name: str, ours: object) -> None:
    found = getattr(importlib.import_module(path), name)
    assert found is ours if ours is not None else callable(found)


def test_the_package_itself_is_millrace() -> None:
    import tensorflow as tf

    assert tf is millrace
    assert millrace.__spec__.name == "millrace"


def test_a_module_that_is_missing_says_so() -> None:
    with pytest.raises(ModuleNotFoundError, match="tensorflow.nosuch is not in Millrace"):
        importlib.import_module("tensorflow.nosuch")


def test_a_name_that_is_missing_says_what_is_near() -> None:
    module = importlib.import_module("tensorflow.python.ops.array_ops")
    with pytest.raises(AttributeError, match=r"conkat is not in Millrace; near it: tf\.concat"):
        _ = module.conkat
    with pytest.raises(ImportError):
        from tensorflow.python.ops.array_ops import no_such_thing  # noqa: F401


def test_taken_back_it_is_gone() -> None:
    importlib.import_module("tensorflow.python.ops.array_ops")
    tensorflow_import.uninstall()
    assert not [name for name in sys.modules if name.startswith("tensorflow.")]
