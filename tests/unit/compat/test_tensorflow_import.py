"""`import tensorflow` on Millrace."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

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
    with pytest.raises(ModuleNotFoundError, match="tf.nosuch is not in Millrace"):
        importlib.import_module("tensorflow.nosuch")


def test_a_name_that_is_missing_says_what_is_near() -> None:
    module = importlib.import_module("tensorflow.python.ops.array_ops")
    with pytest.raises(
        AttributeError, match=r"conkat is not in Millrace; did you mean tf\..*concat\?"
    ):
        _ = module.conkat
    with pytest.raises(ImportError):
        from tensorflow.python.ops.array_ops import no_such_thing  # noqa: F401


def test_taken_back_it_is_gone() -> None:
    importlib.import_module("tensorflow.python.ops.array_ops")
    tensorflow_import.uninstall()
    assert not [name for name in sys.modules if name.startswith("tensorflow.")]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("tensorflow.python.framework.ops", "colocate_with"),
        ("tensorflow.python.framework.ops", "convert_n_to_tensor"),
        ("tensorflow.python.framework.ops", "get_gradient_function"),
        ("tensorflow.python.framework.dtypes", "float32_ref"),
        ("tensorflow.python.framework.tensor_util", "constant_value"),
        ("tensorflow.python.framework.test_util", "TensorFlowTestCase"),
        ("tensorflow.python.ops.variable_scope", "variable_scope"),
        ("tensorflow.python.ops.variable_scope", "_pure_variable_scope"),
        ("tensorflow.python.ops.control_flow_ops", "with_dependencies"),
        ("tensorflow.python.ops.math_ops", "reduce_sum"),
        ("tensorflow.python.ops.rnn_cell_impl", "_Linear"),
        ("tensorflow.python.ops.rnn_cell", "GRUCell"),
        ("tensorflow.python.ops.rnn", "bidirectional_dynamic_rnn"),
        ("tensorflow.python.ops.init_ops", "Zeros"),
        ("tensorflow.python.training.moving_averages", "assign_moving_average"),
        ("tensorflow.python.training.session_run_hook", "SessionRunHook"),
        ("tensorflow.python.training.summary_io", "SummaryWriterCache"),
        ("tensorflow.python.training.training_ops", "apply_adam"),
        ("tensorflow.python.training.checkpoint_state_pb2", "CheckpointState"),
        ("tensorflow.python.client.device_lib", "list_local_devices"),
        ("tensorflow.python.platform.tf_logging", "info"),
        ("tensorflow.python.lib.io.file_io", "read_file_to_string"),
        ("tensorflow.python.util.nest", "is_sequence"),
        ("tensorflow.python.util.tf_inspect", "getargspec"),
        ("tensorflow.python.util.deprecation", "deprecated"),
        ("tensorflow.python.util.tf_export", "tf_export"),
        ("tensorflow.python.eager.context", "executing_eagerly"),
        ("tensorflow.python.saved_model.builder", "SavedModelBuilder"),
        ("tensorflow.python.debug", "LocalCLIDebugWrapperSession"),
        ("tensorflow.core.protobuf.rewriter_config_pb2", "RewriterConfig"),
        ("tensorflow.core.example.example_pb2", "Example"),
        ("tensorflow.core.framework.types_pb2", "DT_FLOAT"),
        ("tensorflow.contrib.rnn.python.ops.core_rnn_cell", "_Linear"),
        ("tensorflow.contrib.framework.python.ops.arg_scope", "arg_scope"),
    ],
)
def test_what_programs_take_from_inside_tensorflow_is_there(path: str, name: str) -> None:
    getattr(importlib.import_module(path), name)


def test_every_name_of_the_overlay_resolves() -> None:
    import pkgutil

    from millrace.compat import overlay

    found = [m.name for m in pkgutil.walk_packages(overlay.__path__, f"{overlay.__name__}.")]
    assert found
    for name in found:
        importlib.import_module(name)


def test_a_module_is_not_another_object_of_the_same_name() -> None:
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import variable_scope

    assert ops.Tensor is millrace.Tensor
    assert not hasattr(ops, "matmul")
    assert variable_scope.variable_scope is millrace.variable_scope


def test_a_module_of_which_there_is_nothing_does_not_import() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"tf\.contrib\.kinesis"):
        importlib.import_module("tensorflow.contrib.kinesis")


def test_the_functions_of_a_star_import_are_those_of_the_module() -> None:
    scope: dict[str, object] = {}
    exec("from tensorflow.python.ops.math_ops import *", scope)
    assert scope["reduce_sum"] is millrace.reduce_sum


def test_the_package_offers_its_insides_as_an_attribute() -> None:
    importlib.import_module("millrace.compat.overlay.python.ops.array_ops")  # is only a part of it
    assert millrace.python.ops.array_ops.concat is millrace.concat


def test_the_debugger_says_what_it_cannot() -> None:
    from tensorflow.python import debug as tf_debug

    with pytest.raises(NotImplementedError, match="LocalCLIDebugWrapperSession"):
        tf_debug.LocalCLIDebugWrapperSession(None)


def test_the_projectors_configuration_is_written_beside_the_events(tmp_path: Path) -> None:
    from tensorflow.contrib.tensorboard.plugins import projector

    config = projector.ProjectorConfig()
    config.embeddings.add().tensor_name = "embedding:0"
    writer = millrace.summary.FileWriter(str(tmp_path))
    projector.visualize_embeddings(writer, config)
    writer.close()
    assert 'tensor_name: "embedding:0"' in (tmp_path / "projector_config.pbtxt").read_text()
