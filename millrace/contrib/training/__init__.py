"""`tf.contrib.training`. Re-exports only."""

from millrace.contrib.training.bucket_ops import (
    bucket,
    bucket_by_sequence_length,
)
from millrace.contrib.training.evaluation import (
    StopAfterNEvalsHook,
    SummaryAtEndHook,
    evaluate_once,
    evaluate_repeatedly,
    get_or_create_eval_step,
    wait_for_new_checkpoint,
)
from millrace.contrib.training.hparam import (
    HParams,
    parse_values,
)
from millrace.contrib.training.training import (
    train,
)
from millrace.train import (
    FinalOpsHook,
)
from millrace.training.checkpoint.state import (
    checkpoints_iterator,
)
from millrace.training.optimizers.train_op import (
    add_gradients_summaries,
    clip_gradient_norms,
    clip_gradient_norms_fn,
    create_train_op,
    multiply_gradients,
)
from millrace.training.replicas.device_setter import (
    GreedyLoadBalancingStrategy,
    RandomStrategy,
    byte_size_load_fn,
)

__all__ = [
    "FinalOpsHook",
    "GreedyLoadBalancingStrategy",
    "HParams",
    "RandomStrategy",
    "StopAfterNEvalsHook",
    "SummaryAtEndHook",
    "add_gradients_summaries",
    "bucket",
    "bucket_by_sequence_length",
    "byte_size_load_fn",
    "checkpoints_iterator",
    "clip_gradient_norms",
    "clip_gradient_norms_fn",
    "create_train_op",
    "evaluate_once",
    "evaluate_repeatedly",
    "get_or_create_eval_step",
    "multiply_gradients",
    "parse_values",
    "train",
    "wait_for_new_checkpoint",
]
