"""`tf.train`."""

# ruff: noqa: F401 - this module re-exports

from millrace.core.cluster_spec import ClusterSpec
from millrace.core.config import ClusterDef, JobDef, SaverDef
from millrace.data.example import (
    BytesList,
    Example,
    Feature,
    FeatureList,
    FeatureLists,
    Features,
    FloatList,
    Int64List,
    SequenceExample,
)
from millrace.training.meta_graph import export_meta_graph, import_meta_graph
from millrace.training.write_graph import write_graph
