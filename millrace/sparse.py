"""`tf.sparse`: operations on sparse tensors."""

from millrace.graph.slices import SparseTensor
from millrace.ops.array.constant import sparse_placeholder as placeholder
from millrace.ops.data_flow.accumulators import SparseConditionalAccumulator
from millrace.ops.sparse.arithmetic import sparse_add as add
from millrace.ops.sparse.arithmetic import sparse_maximum as maximum
from millrace.ops.sparse.arithmetic import sparse_minimum as minimum
from millrace.ops.sparse.arithmetic import sparse_tensor_dense_matmul as matmul
from millrace.ops.sparse.arithmetic import sparse_tensor_dense_matmul as sparse_dense_matmul
from millrace.ops.sparse.cross import sparse_cross as cross
from millrace.ops.sparse.cross import sparse_cross_hashed as cross_hashed
from millrace.ops.sparse.reduction import sparse_reduce_max as reduce_max
from millrace.ops.sparse.reduction import sparse_reduce_max_sparse as reduce_max_sparse
from millrace.ops.sparse.reduction import sparse_reduce_sum as reduce_sum
from millrace.ops.sparse.reduction import sparse_reduce_sum_sparse as reduce_sum_sparse
from millrace.ops.sparse.reduction import sparse_softmax as softmax
from millrace.ops.sparse.rows import sparse_fill_empty_rows as fill_empty_rows
from millrace.ops.sparse.rows import sparse_merge as merge
from millrace.ops.sparse.rows import sparse_retain as retain
from millrace.ops.sparse.rows import sparse_to_indicator as to_indicator
from millrace.ops.sparse.segment import sparse_segment_mean as segment_mean
from millrace.ops.sparse.segment import sparse_segment_sqrt_n as segment_sqrt_n
from millrace.ops.sparse.segment import sparse_segment_sum as segment_sum
from millrace.ops.sparse.slicing import sparse_concat as concat
from millrace.ops.sparse.slicing import sparse_mask as mask
from millrace.ops.sparse.slicing import sparse_slice as slice
from millrace.ops.sparse.slicing import sparse_split as split
from millrace.ops.sparse.sparse import from_dense
from millrace.ops.sparse.sparse import sparse_expand_dims as expand_dims
from millrace.ops.sparse.sparse import sparse_eye as eye
from millrace.ops.sparse.sparse import sparse_reorder as reorder
from millrace.ops.sparse.sparse import sparse_reset_shape as reset_shape
from millrace.ops.sparse.sparse import sparse_reshape as reshape
from millrace.ops.sparse.sparse import sparse_tensor_to_dense as to_dense
from millrace.ops.sparse.sparse import sparse_transpose as transpose

__all__ = [
    "SparseConditionalAccumulator",
    "SparseTensor",
    "add",
    "concat",
    "cross",
    "cross_hashed",
    "expand_dims",
    "eye",
    "fill_empty_rows",
    "from_dense",
    "mask",
    "matmul",
    "maximum",
    "merge",
    "minimum",
    "placeholder",
    "reduce_max",
    "reduce_max_sparse",
    "reduce_sum",
    "reduce_sum_sparse",
    "reorder",
    "reset_shape",
    "reshape",
    "retain",
    "segment_mean",
    "segment_sqrt_n",
    "segment_sum",
    "slice",
    "softmax",
    "sparse_dense_matmul",
    "split",
    "to_dense",
    "to_indicator",
    "transpose",
]
