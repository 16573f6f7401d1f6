"""``tf.nn``: what neural networks are built from. Re-exports only."""

from millrace.ops.activation import (
    crelu,
    elu,
    leaky_relu,
    relu,
    relu6,
    selu,
    silu,
    softplus,
    softsign,
    swish,
)
from millrace.ops.array_blocks import depth_to_space, space_to_batch, space_to_depth
from millrace.ops.batch_norm import (
    batch_norm_with_global_normalization,
    batch_normalization,
    fused_batch_norm,
)
from millrace.ops.bias import bias_add, bias_add_v1, relu_layer, xw_plus_b
from millrace.ops.convolution import (
    conv1d,
    conv1d_transpose,
    conv2d,
    conv2d_backprop_filter,
    conv2d_backprop_input,
    conv2d_transpose,
)
from millrace.ops.convolution_3d import (
    conv3d,
    conv3d_backprop_filter,
    conv3d_backprop_filter_v2,
    conv3d_transpose,
    conv_transpose,
)
from millrace.ops.cross_entropy import (
    log_poisson_loss,
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits_v2,
    sparse_softmax_cross_entropy_with_logits,
    weighted_cross_entropy_with_logits,
)
from millrace.ops.depthwise import (
    depthwise_conv2d,
    depthwise_conv2d_backprop_filter,
    depthwise_conv2d_backprop_input,
    depthwise_conv2d_native,
    depthwise_conv2d_native_backprop_filter,
    depthwise_conv2d_native_backprop_input,
    separable_conv2d,
)
from millrace.ops.dilated import (
    atrous_conv2d,
    atrous_conv2d_transpose,
    convolution,
    with_space_to_batch,
)
from millrace.ops.dropout import dropout
from millrace.ops.elementwise import log_sigmoid, sigmoid, tanh
from millrace.ops.moments import (
    moments,
    normalize_moments,
    sufficient_statistics,
    weighted_moments,
)
from millrace.ops.normalization import (
    l2_loss,
    l2_normalize,
    local_response_normalization,
    lrn,
    zero_fraction,
)
from millrace.ops.numeric import in_top_k, top_k
from millrace.ops.pooling import (
    avg_pool,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    avg_pool_v2,
    max_pool,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    max_pool_v2,
    max_pool_with_argmax,
    pool,
)
from millrace.ops.softmax import log_softmax, softmax

__all__ = sorted(name for name in dir() if not name.startswith("_"))
