"""`tf.contrib.learn`: what came before tf.estimator, on top of it. Re-exports only."""

from millrace.contrib.learn import datasets, learn_runner
from millrace.contrib.learn.canned import (
    DNNClassifier,
    DNNEstimator,
    DNNLinearCombinedClassifier,
    DNNLinearCombinedEstimator,
    DNNLinearCombinedRegressor,
    DNNRegressor,
    LinearClassifier,
    LinearEstimator,
    LinearRegressor,
)
from millrace.contrib.learn.estimator import Estimator, SKCompat
from millrace.contrib.learn.experiment import Experiment
from millrace.contrib.learn.export_strategy import ExportStrategy, make_export_strategy
from millrace.contrib.learn.heads import (
    Head,
    PredictionKey,
    ProblemType,
    binary_svm_head,
    multi_class_head,
    multi_head,
    multi_label_head,
    no_op_train_fn,
    poisson_regression_head,
    regression_head,
)
from millrace.contrib.learn.inferred_columns import (
    infer_real_valued_columns_from_input,
    infer_real_valued_columns_from_input_fn,
)
from millrace.contrib.learn.model_fn import MetricSpec, ModeKeys, ModelFnOps
from millrace.contrib.learn.run_config import RunConfig
from millrace.train import NanLossDuringTrainingError

__all__ = [
    "DNNClassifier",
    "DNNEstimator",
    "DNNLinearCombinedClassifier",
    "DNNLinearCombinedEstimator",
    "DNNLinearCombinedRegressor",
    "DNNRegressor",
    "Estimator",
    "Experiment",
    "ExportStrategy",
    "Head",
    "LinearClassifier",
    "LinearEstimator",
    "LinearRegressor",
    "MetricSpec",
    "ModeKeys",
    "ModelFnOps",
    "NanLossDuringTrainingError",
    "PredictionKey",
    "ProblemType",
    "RunConfig",
    "SKCompat",
    "binary_svm_head",
    "datasets",
    "infer_real_valued_columns_from_input",
    "infer_real_valued_columns_from_input_fn",
    "learn_runner",
    "make_export_strategy",
    "multi_class_head",
    "multi_head",
    "multi_label_head",
    "no_op_train_fn",
    "poisson_regression_head",
    "regression_head",
]
