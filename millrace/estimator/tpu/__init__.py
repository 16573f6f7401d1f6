"""`tf.estimator.tpu`: TPU programs, run on CPUs. Re-exports only."""

from millrace.estimator.tpu.tpu_config import InputPipelineConfig, RunConfig, TPUConfig
from millrace.estimator.tpu.tpu_estimator import TPUEstimator
from millrace.estimator.tpu.tpu_estimator_spec import TPUEstimatorSpec
