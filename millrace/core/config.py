"""TensorFlow's message classes, under one roof.

They come from the `tensorboard` package, whose copies have TensorFlow's fields and numbers: what
is serialized here, TensorFlow and TensorBoard read, and the other way round. Import messages from
here, so that their origin is stated once. Messages that `tensorboard` does not ship (ServerDef,
Example, SavedModel, CheckpointState, BundleHeaderProto, ...) are defined where they are used.

Must not: contain code.
"""

from tensorboard.compat.proto.attr_value_pb2 import AttrValue, NameAttrList
from tensorboard.compat.proto.cluster_pb2 import ClusterDef, JobDef
from tensorboard.compat.proto.config_pb2 import (
    CallableOptions,
    ConfigProto,
    GPUOptions,
    GraphOptions,
    OptimizerOptions,
    RunMetadata,
    RunOptions,
    SessionMetadata,
    TensorConnection,
    ThreadPoolOptionProto,
)
from tensorboard.compat.proto.cost_graph_pb2 import CostGraphDef
from tensorboard.compat.proto.debug_pb2 import DebugOptions, DebugTensorWatch
from tensorboard.compat.proto.event_pb2 import (
    Event,
    LogMessage,
    SessionLog,
    TaggedRunMetadata,
)
from tensorboard.compat.proto.full_type_pb2 import FullTypeDef
from tensorboard.compat.proto.function_pb2 import (
    FunctionDef,
    FunctionDefLibrary,
    GradientDef,
)
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.histogram_pb2 import HistogramProto
from tensorboard.compat.proto.meta_graph_pb2 import (
    AssetFileDef,
    CollectionDef,
    MetaGraphDef,
    SignatureDef,
    TensorInfo,
)
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.op_def_pb2 import OpDef, OpDeprecation, OpList
from tensorboard.compat.proto.resource_handle_pb2 import ResourceHandleProto
from tensorboard.compat.proto.rewriter_config_pb2 import RewriterConfig
from tensorboard.compat.proto.rpc_options_pb2 import RPCOptions
from tensorboard.compat.proto.saved_object_graph_pb2 import SavedObjectGraph
from tensorboard.compat.proto.saver_pb2 import SaverDef
from tensorboard.compat.proto.step_stats_pb2 import (
    AllocationRecord,
    AllocatorMemoryUsed,
    DeviceStepStats,
    MemoryStats,
    NodeExecStats,
    NodeOutput,
    StepStats,
)
from tensorboard.compat.proto.struct_pb2 import StructuredValue
from tensorboard.compat.proto.summary_pb2 import (
    Summary,
    SummaryDescription,
    SummaryMetadata,
)
from tensorboard.compat.proto.tensor_description_pb2 import TensorDescription
from tensorboard.compat.proto.tensor_pb2 import TensorProto, VariantTensorDataProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.trackable_object_graph_pb2 import TrackableObjectGraph
from tensorboard.compat.proto.types_pb2 import DataType
from tensorboard.compat.proto.variable_pb2 import SaveSliceInfoDef, VariableDef
from tensorboard.compat.proto.versions_pb2 import VersionDef

__all__ = [
    "AllocationRecord",
    "AllocatorMemoryUsed",
    "AssetFileDef",
    "AttrValue",
    "CallableOptions",
    "ClusterDef",
    "CollectionDef",
    "ConfigProto",
    "CostGraphDef",
    "DataType",
    "DebugOptions",
    "DebugTensorWatch",
    "DeviceStepStats",
    "Event",
    "FullTypeDef",
    "FunctionDef",
    "FunctionDefLibrary",
    "GPUOptions",
    "GradientDef",
    "GraphDef",
    "GraphOptions",
    "HistogramProto",
    "JobDef",
    "LogMessage",
    "MemoryStats",
    "MetaGraphDef",
    "NameAttrList",
    "NodeDef",
    "NodeExecStats",
    "NodeOutput",
    "OpDef",
    "OpDeprecation",
    "OpList",
    "OptimizerOptions",
    "RPCOptions",
    "ResourceHandleProto",
    "RewriterConfig",
    "RunMetadata",
    "RunOptions",
    "SaveSliceInfoDef",
    "SavedObjectGraph",
    "SaverDef",
    "SessionLog",
    "SessionMetadata",
    "SignatureDef",
    "StepStats",
    "StructuredValue",
    "Summary",
    "SummaryDescription",
    "SummaryMetadata",
    "TaggedRunMetadata",
    "TensorConnection",
    "TensorDescription",
    "TensorInfo",
    "TensorProto",
    "TensorShapeProto",
    "ThreadPoolOptionProto",
    "TrackableObjectGraph",
    "VariableDef",
    "VariantTensorDataProto",
    "VersionDef",
]
