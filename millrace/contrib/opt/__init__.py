"""`tf.contrib.opt`: more optimizers. Re-exports only."""

from millrace.contrib.opt.lazy_adam import (
    LazyAdamOptimizer,
)
from millrace.contrib.opt.model_average import (
    ModelAverageCustomGetter,
    ModelAverageOptimizer,
)
from millrace.contrib.opt.moving_average import (
    MovingAverageOptimizer,
)
from millrace.contrib.opt.weight_decay import (
    AdamWOptimizer,
    DecoupledWeightDecayExtension,
    MomentumWOptimizer,
    extend_with_decoupled_weight_decay,
)

__all__ = [
    "AdamWOptimizer",
    "DecoupledWeightDecayExtension",
    "LazyAdamOptimizer",
    "ModelAverageCustomGetter",
    "ModelAverageOptimizer",
    "MomentumWOptimizer",
    "MovingAverageOptimizer",
    "extend_with_decoupled_weight_decay",
]
