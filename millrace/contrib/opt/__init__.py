"""`tf.contrib.opt`: more optimizers. Re-exports only."""

from millrace.contrib.opt.adam_variants import (
    AdaMaxOptimizer,
    AddSignOptimizer,
    NadamOptimizer,
    PowerSignOptimizer,
)
from millrace.contrib.opt.external_optimizer import (
    ExternalOptimizerInterface,
    ScipyOptimizerInterface,
)
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
from millrace.contrib.opt.worker_copies import (
    AGNCustomGetter,
    AGNOptimizer,
    ElasticAverageCustomGetter,
    ElasticAverageOptimizer,
)
from millrace.contrib.opt.wrappers import (
    DropStaleGradientOptimizer,
    LARSOptimizer,
    MultitaskOptimizerWrapper,
    RegAdagradOptimizer,
    VariableClippingOptimizer,
    clip_gradients_by_global_norm,
)

__all__ = [
    "AGNCustomGetter",
    "AGNOptimizer",
    "AdaMaxOptimizer",
    "AdamWOptimizer",
    "AddSignOptimizer",
    "DecoupledWeightDecayExtension",
    "DropStaleGradientOptimizer",
    "ElasticAverageCustomGetter",
    "ElasticAverageOptimizer",
    "ExternalOptimizerInterface",
    "LARSOptimizer",
    "LazyAdamOptimizer",
    "ModelAverageCustomGetter",
    "ModelAverageOptimizer",
    "MomentumWOptimizer",
    "MovingAverageOptimizer",
    "MultitaskOptimizerWrapper",
    "NadamOptimizer",
    "PowerSignOptimizer",
    "RegAdagradOptimizer",
    "ScipyOptimizerInterface",
    "VariableClippingOptimizer",
    "clip_gradients_by_global_norm",
    "extend_with_decoupled_weight_decay",
]
