"""`tf.distribute`: who is in the cluster."""

from millrace.server.server import Server as Server
from millrace.training.replicas import cluster_resolver as cluster_resolver
