"""`tf.contrib.training`. Re-exports only."""

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
    "GreedyLoadBalancingStrategy",
    "RandomStrategy",
    "add_gradients_summaries",
    "byte_size_load_fn",
    "clip_gradient_norms",
    "clip_gradient_norms_fn",
    "create_train_op",
    "multiply_gradients",
]
