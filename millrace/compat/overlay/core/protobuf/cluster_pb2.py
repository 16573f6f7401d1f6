"""What programs take from TensorFlow's core.protobuf.cluster_pb2 that has no public name."""

from millrace.core.config import ClusterDef, JobDef
