"""`tf.contrib.cluster_resolver`. Re-exports only."""

from millrace.training.replicas.cluster_resolver import (
    ClusterResolver,
    SimpleClusterResolver,
    TFConfigClusterResolver,
)

__all__ = ["ClusterResolver", "SimpleClusterResolver", "TFConfigClusterResolver"]
