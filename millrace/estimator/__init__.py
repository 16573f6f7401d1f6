"""`tf.estimator`: models with their training, evaluation and export. Re-exports only."""

from millrace.estimator import experimental, export, inputs, tpu
from millrace.estimator.canned.baseline import (
    BaselineClassifier,
    BaselineEstimator,
    BaselineRegressor,
)
from millrace.estimator.canned.boosted_trees import (
    BoostedTreesClassifier,
    BoostedTreesEstimator,
    BoostedTreesRegressor,
)
from millrace.estimator.canned.dnn import DNNClassifier, DNNEstimator, DNNRegressor
from millrace.estimator.canned.dnn_linear_combined import (
    DNNLinearCombinedClassifier,
    DNNLinearCombinedEstimator,
    DNNLinearCombinedRegressor,
)
from millrace.estimator.canned.linear import LinearClassifier, LinearEstimator, LinearRegressor
from millrace.estimator.canned.parsing_utils import (
    classifier_parse_example_spec,
    regressor_parse_example_spec,
)
from millrace.estimator.estimator import Estimator
from millrace.estimator.estimator_spec import EstimatorSpec
from millrace.estimator.exporter import BestExporter, Exporter, FinalExporter, LatestExporter
from millrace.estimator.extenders import add_metrics
from millrace.estimator.heads.head import (
    BinaryClassHead,
    Head,
    LogisticRegressionHead,
    MultiClassHead,
    MultiLabelHead,
    PoissonRegressionHead,
    RegressionHead,
)
from millrace.estimator.heads.multi import MultiHead
from millrace.estimator.keras_model import model_to_estimator
from millrace.estimator.mode_keys import ModeKeys
from millrace.estimator.run_config import RunConfig
from millrace.estimator.specs import EvalSpec, TrainSpec
from millrace.estimator.training import train_and_evaluate
from millrace.train import (
    CheckpointSaverHook,
    CheckpointSaverListener,
    FeedFnHook,
    FinalOpsHook,
    GlobalStepWaiterHook,
    LoggingTensorHook,
    NanLossDuringTrainingError,
    NanTensorHook,
    ProfilerHook,
    SecondOrStepTimer,
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
    StepCounterHook,
    StopAtStepHook,
    SummarySaverHook,
)
from millrace.training.checkpoint.warm_start import VocabInfo, WarmStartSettings
