"""`tf.distribute`: who is in the cluster, and the strategies that one replica has."""

from millrace.server.server import Server as Server
from millrace.training.replicas import cluster_resolver as cluster_resolver
from millrace.training.replicas import distribute_experimental as experimental  # noqa: F401
from millrace.training.replicas.strategy import InputContext as InputContext
from millrace.training.replicas.strategy import MirroredStrategy as MirroredStrategy
from millrace.training.replicas.strategy import OneDeviceStrategy as OneDeviceStrategy
from millrace.training.replicas.strategy import ReduceOp as ReduceOp
from millrace.training.replicas.strategy import Strategy as Strategy
from millrace.training.replicas.strategy import get_strategy as get_strategy
from millrace.training.replicas.strategy import has_strategy as has_strategy
from millrace.training.replicas.strategy import (
    in_cross_replica_context as in_cross_replica_context,
)
