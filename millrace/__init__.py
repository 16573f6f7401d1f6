"""Millrace: Distributed TensorFlow 1.x on XLA. ``import millrace as tf``.

This package is a facade: everything in it is re-exported from the folders below.
"""

from typing import TYPE_CHECKING

from millrace.platform import collector, deferred

collector.rest()

from millrace import (
    bitwise,
    compat,
    debugging,
    dtypes,
    errors,
    gfile,
    image,
    initializers,
    io,
    linalg,
    logging,
    lookup,
    manip,
    math,
    nest,
    nn,
    python_io,
    queue,
    random,
    raw_ops,
    sets,
    signal,
    sparse,
    spectral,
    strings,
    summary,
    train,
    version,
)
from millrace.client.session import InteractiveSession, Session
from millrace.core.config import (
    AttrValue,
    ConfigProto,
    Event,
    GPUOptions,
    GraphDef,
    GraphOptions,
    HistogramProto,
    LogMessage,
    MetaGraphDef,
    NameAttrList,
    NodeDef,
    OptimizerOptions,
    RunMetadata,
    RunOptions,
    SessionLog,
    Summary,
    SummaryMetadata,
    TensorInfo,
)
from millrace.core.device_spec import DeviceSpec
from millrace.core.dtypes import (
    QUANTIZED_DTYPES,
    DType,
    as_dtype,
    bfloat16,
    bool,
    complex64,
    complex128,
    double,
    float16,
    float32,
    float64,
    half,
    int8,
    int16,
    int32,
    int64,
    qint8,
    qint16,
    qint32,
    quint8,
    quint16,
    resource,
    string,
    uint8,
    uint16,
    uint32,
    uint64,
    variant,
)
from millrace.core.errors import OpError
from millrace.core.tensor_proto import make_ndarray, make_tensor_proto
from millrace.core.tensor_shape import (
    Dimension,
    TensorShape,
    dimension_at_index,
    dimension_value,
)
from millrace.core.tensor_spec import SparseTensorSpec, TensorSpec, TypeSpec
from millrace.graph.behavior import *
from millrace.graph.constant_value import constant_value as get_static_value
from millrace.graph.convert import (
    convert_to_tensor,
    register_tensor_conversion_function,
)
from millrace.graph.defaults import (
    add_to_collection,
    add_to_collections,
    colocate_with,
    container,
    control_dependencies,
    device,
    get_collection,
    get_collection_ref,
    get_default_graph,
    get_default_session,
    init_scope,
    name_scope,
    op_scope,
    reset_default_graph,
)
from millrace.graph.graph import (
    GRAPH_DEF_VERSION,
    GRAPH_DEF_VERSION_MIN_CONSUMER,
    GRAPH_DEF_VERSION_MIN_PRODUCER,
    Graph,
)
from millrace.graph.import_graph_def import import_graph_def
from millrace.graph.keys import GraphKeys
from millrace.graph.operation import Operation
from millrace.graph.registry import RegisterGradient, no_gradient
from millrace.graph.registry import no_gradient as NoGradient
from millrace.graph.registry import no_gradient as NotDifferentiable
from millrace.graph.slices import (
    IndexedSlices,
    IndexedSlicesValue,
    SparseTensor,
    SparseTensorValue,
    convert_to_tensor_or_indexed_slices,
    convert_to_tensor_or_sparse_tensor,
    is_tensor,
)
from millrace.graph.tensor import Tensor
from millrace.ops.accumulators import *
from millrace.ops.arithmetic import *
from millrace.ops.array import *
from millrace.ops.array_blocks import *
from millrace.ops.array_diag import *
from millrace.ops.array_fill import *
from millrace.ops.array_gather import *
from millrace.ops.array_identity import *
from millrace.ops.array_join import *
from millrace.ops.array_layout import *
from millrace.ops.array_order import *
from millrace.ops.array_pad import *
from millrace.ops.array_select import *
from millrace.ops.array_sets import *
from millrace.ops.array_shape import *
from millrace.ops.array_slicing import *
from millrace.ops.assertion import *
from millrace.ops.barrier import *
from millrace.ops.cast import *
from millrace.ops.checks import *
from millrace.ops.clip import *
from millrace.ops.comparison import *
from millrace.ops.complex_numbers import *
from millrace.ops.constant import *
from millrace.ops.contraction import *
from millrace.ops.control_flow import *
from millrace.ops.counting import *
from millrace.ops.critical_section import *
from millrace.ops.cumulative import *
from millrace.ops.custom_gradient import *
from millrace.ops.data_format import *
from millrace.ops.elementwise import *
from millrace.ops.fake_quant import *
from millrace.ops.fourier import *
from millrace.ops.frames import *
from millrace.ops.function_call import *
from millrace.ops.functional import *
from millrace.ops.gradients import *
from millrace.ops.initializers import *
from millrace.ops.io import *
from millrace.ops.linear_algebra import *
from millrace.ops.logging_ops import *
from millrace.ops.lookup import *
from millrace.ops.loops import *
from millrace.ops.matrix_factorization import *
from millrace.ops.numeric import *
from millrace.ops.parsing import *
from millrace.ops.partitioners import *
from millrace.ops.py_func import *
from millrace.ops.queues import *
from millrace.ops.random import *
from millrace.ops.reduction import *
from millrace.ops.segment import *
from millrace.ops.session_handles import *
from millrace.ops.sparse import *
from millrace.ops.sparse_arithmetic import *
from millrace.ops.sparse_reduction import *
from millrace.ops.sparse_rows import *
from millrace.ops.sparse_segment import *
from millrace.ops.sparse_serialization import *
from millrace.ops.sparse_slicing import *
from millrace.ops.special_functions import *
from millrace.ops.staging import *
from millrace.ops.string_conversion import *
from millrace.ops.strings import *
from millrace.ops.template import *
from millrace.ops.tensor_array import *
from millrace.ops.tensor_list import *
from millrace.ops.timestamp import *
from millrace.ops.variable_scope import *
from millrace.ops.variables import *
from millrace.platform.build_flags import (
    CXX11_ABI_FLAG,
    CXX_VERSION,
    MONOLITHIC_BUILD,
    load_file_system_library,
    load_library,
    load_op_library,
)
from millrace.platform.logging import get_logger
from millrace.platform.version import (
    COMPILER_VERSION,
    GIT_VERSION,
    __git_version__,
    __version__,
)
from millrace.platform.version import TENSORFLOW_VERSION as VERSION
from millrace.summary.builders import (
    audio_summary,
    histogram_summary,
    image_summary,
    merge_all_summaries,
    merge_summary,
    scalar_summary,
)

if TYPE_CHECKING:
    from millrace import (
        app,
        contrib,
        distribute,
        estimator,
        examples,
        flags,
        graph_util,
        losses,
        metrics,
        resource_loader,
        saved_model,
        sysconfig,
        test,
    )
else:
    #: No task needs these to serve, nor most programs to train.
    __getattr__, __dir__ = deferred.facade(
        __name__,
        "app contrib distribute estimator examples flags graph_util losses metrics "
        "resource_loader saved_model sysconfig test".split(),
        globals(),
    )

collector.resume()
