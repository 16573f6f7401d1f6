"""`tf.estimator`: models with their training, evaluation and export. Re-exports only."""

from millrace.estimator import export
from millrace.estimator.estimator_spec import EstimatorSpec
from millrace.estimator.mode_keys import ModeKeys
from millrace.estimator.run_config import RunConfig
from millrace.training.checkpoint.warm_start import VocabInfo, WarmStartSettings
