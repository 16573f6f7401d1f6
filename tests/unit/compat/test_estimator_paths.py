"""Estimators at the places from which programs import them."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import pytest

import millrace as tf
from millrace.compat import tensorflow_import


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    tensorflow_import.install()
    yield
    tensorflow_import.uninstall()


@pytest.mark.parametrize("root", ["tensorflow.python", "tensorflow_estimator.python"])
@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("estimator", "Estimator"),
        ("estimator", "_load_global_step_from_checkpoint_dir"),
        ("run_config", "RunConfig"),
        ("run_config", "TaskType"),
        ("model_fn", "EstimatorSpec"),
        ("model_fn", "ModeKeys"),
        ("training", "train_and_evaluate"),
        ("training", "_TrainingExecutor"),
        ("util", "fn_args"),
        ("export.export_lib", "build_all_signature_defs"),
        ("export.export_output", "PredictOutput"),
        ("exporter", "BestExporter"),
        ("inputs.numpy_io", "numpy_input_fn"),
    ],
)
def test_a_name_is_found_where_tensorflow_has_it(root: str, module: str, name: str) -> None:
    assert getattr(importlib.import_module(f"{root}.estimator.{module}"), name) is not None


def test_the_distribution_has_the_namespace() -> None:
    package = importlib.import_module("tensorflow_estimator")
    assert package.estimator.Estimator is tf.estimator.Estimator
    with pytest.raises(ModuleNotFoundError, match="tensorflow_estimator.python.nothing"):
        importlib.import_module("tensorflow_estimator.python.nothing")
