"""`tf.contrib.distribute`: the strategies that one replica per process has. Re-exports only."""

from millrace.training.replicas.strategy import (
    DistributeConfig,
    MirroredStrategy,
    OneDeviceStrategy,
    ParameterServerStrategy,
    Strategy,
)
from millrace.training.replicas.strategy import Strategy as DistributionStrategy
from millrace.training.replicas.strategy import get_strategy as get_distribution_strategy
from millrace.training.replicas.strategy import has_strategy as has_distribution_strategy
from millrace.training.replicas.strategy import (
    in_cross_replica_context as in_cross_tower_context,
)

__all__ = [
    "DistributeConfig",
    "DistributionStrategy",
    "MirroredStrategy",
    "OneDeviceStrategy",
    "ParameterServerStrategy",
    "Strategy",
    "get_distribution_strategy",
    "has_distribution_strategy",
    "in_cross_tower_context",
]
