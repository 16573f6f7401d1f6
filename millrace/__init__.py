"""Millrace: Distributed TensorFlow 1.x on XLA. ``import millrace as tf``.

This package is a facade: everything in it is re-exported from the folders below.
"""

from typing import TYPE_CHECKING

from millrace.platform import lazy_import, process_tuning, tracebacks

process_tuning.rest_collector()
tracebacks.install()

from millrace import (
    autograph,
    bitwise,
    compat,
    data,
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
    ragged,
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
from millrace.core.tensor_spec import RaggedTensorSpec, SparseTensorSpec, TensorSpec, TypeSpec
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
from millrace.ops.array.blocks import *
from millrace.ops.array.cast import *
from millrace.ops.array.constant import *
from millrace.ops.array.diag import *
from millrace.ops.array.fill import *
from millrace.ops.array.gather import *
from millrace.ops.array.identity import *
from millrace.ops.array.indexing import *
from millrace.ops.array.join import *
from millrace.ops.array.layout import *
from millrace.ops.array.order import *
from millrace.ops.array.pad import *
from millrace.ops.array.select import *
from millrace.ops.array.sets import *
from millrace.ops.array.shape import *
from millrace.ops.array.slicing import *
from millrace.ops.boosted_trees import kernels as _boosted_trees  # registers its op types
from millrace.ops.control_flow.assertion import *
from millrace.ops.control_flow.checks import *
from millrace.ops.control_flow.control_flow import *
from millrace.ops.control_flow.frames import *
from millrace.ops.control_flow.functional import *
from millrace.ops.control_flow.loops import *
from millrace.ops.control_flow.tensor_array import *
from millrace.ops.control_flow.tensor_array_gradients import *
from millrace.ops.control_flow.tensor_list import *
from millrace.ops.data import parquet as _parquet  # registers its op type
from millrace.ops.data.function_kernels import *
from millrace.ops.data.iterator_kernels import *
from millrace.ops.data.order_kernels import *
from millrace.ops.data.source_kernels import *
from millrace.ops.data_flow.accumulators import *
from millrace.ops.data_flow.barrier import *
from millrace.ops.data_flow.critical_section import *
from millrace.ops.data_flow.queues import *
from millrace.ops.data_flow.session_handles import *
from millrace.ops.data_flow.staging import *
from millrace.ops.functions.custom_gradient import *
from millrace.ops.functions.function_call import *
from millrace.ops.functions.gradient_tape import *
from millrace.ops.functions.gradients import *
from millrace.ops.functions.graph_function import *
from millrace.ops.functions.py_func import *
from millrace.ops.io.io import *
from millrace.ops.io.logging_ops import *
from millrace.ops.io.timestamp import *
from millrace.ops.linalg.contraction import *
from millrace.ops.linalg.linear_algebra import *
from millrace.ops.linalg.matrix_factorization import *
from millrace.ops.lookup.tables import *
from millrace.ops.math.arithmetic import *
from millrace.ops.math.clip import *
from millrace.ops.math.comparison import *
from millrace.ops.math.complex_numbers import *
from millrace.ops.math.counting import *
from millrace.ops.math.cumulative import *
from millrace.ops.math.elementwise import *
from millrace.ops.math.fourier import *
from millrace.ops.math.numeric import *
from millrace.ops.math.reduction import *
from millrace.ops.math.segment import *
from millrace.ops.math.special_functions import *
from millrace.ops.nn.data_format import *
from millrace.ops.nn.fake_quant import *
from millrace.ops.parsing.parsing import *
from millrace.ops.ragged.dispatch import *
from millrace.ops.ragged.ragged_tensor import *
from millrace.ops.random.random import *
from millrace.ops.sparse.arithmetic import *
from millrace.ops.sparse.reduction import *
from millrace.ops.sparse.rows import *
from millrace.ops.sparse.segment import *
from millrace.ops.sparse.serialization import *
from millrace.ops.sparse.slicing import *
from millrace.ops.sparse.sparse import *
from millrace.ops.state.initializers import *
from millrace.ops.state.module import *
from millrace.ops.state.partitioners import *
from millrace.ops.state.template import *
from millrace.ops.state.variable_scope import *
from millrace.ops.state.variables import *
from millrace.ops.strings.conversion import *
from millrace.ops.strings.strings import *
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
)
from millrace.platform.version import TENSORFLOW_VERSION as VERSION
from millrace.platform.version import TENSORFLOW_VERSION as __version__  # noqa: N811
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
        config,
        contrib,
        distribute,
        distributions,
        estimator,
        examples,
        feature_column,
        flags,
        graph_util,
        keras,
        layers,
        losses,
        metrics,
        python,
        quantization,
        resource_loader,
        saved_model,
        sysconfig,
        test,
    )
else:
    #: No task needs these to serve, nor most programs to train.
    __getattr__, __dir__ = lazy_import.facade(
        __name__,
        "app config contrib distribute distributions estimator examples feature_column flags "
        "graph_util keras layers losses metrics python quantization resource_loader "
        "saved_model sysconfig test".split(),
        globals(),
    )

process_tuning.resume_collector()
