"""`tf.contrib.tpu`: TPU programs, run on CPUs. Re-exports only."""

from millrace.contrib.tpu.one_core import bfloat16_scope, cross_replica_sum
from millrace.estimator.tpu.cross_shard_optimizer import CrossShardOptimizer
from millrace.estimator.tpu.tpu_config import InputPipelineConfig, RunConfig, TPUConfig
from millrace.estimator.tpu.tpu_estimator import TPUEstimator
from millrace.estimator.tpu.tpu_estimator_spec import TPUEstimatorSpec

__all__ = [
    "CrossShardOptimizer",
    "InputPipelineConfig",
    "RunConfig",
    "TPUConfig",
    "TPUEstimator",
    "TPUEstimatorSpec",
    "bfloat16_scope",
    "cross_replica_sum",
]
