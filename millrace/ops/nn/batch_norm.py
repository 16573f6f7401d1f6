"""Batch normalisation: from given moments, and fused with the computing of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.compiler.xla import jnp, lax
from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.registry import JAX_GRADIENT, NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext
from millrace.graph.tensor import Tensor
from millrace.ops.array import constant
from millrace.ops.math import elementwise
from millrace.ops.nn import convolution, windows

__all__ = [
    "batch_norm_with_global_normalization",
    "batch_normalization",
    "fused_batch_norm",
]

#: The least epsilon that TensorFlow hands to its fused kernels (cuDNN's limit).
_LEAST_EPSILON = 1.001e-5

_2D = 'data_format: {"NHWC", "NCHW"} = "NHWC"; is_training: bool = true'
_ANY_D = 'data_format: {"NHWC", "NCHW", "NDHWC", "NCDHW"} = "NHWC"; is_training: bool = true'
_EPSILON = "epsilon: float = 9.999999747378752e-05"
_FACTOR = "exponential_avg_factor: float = 1.0"


# -- Kernels -----------------------------------------------------------------------------


def _layout(x: Any, data_format: bytes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes to reduce over, and the shape in which a vector of channels broadcasts."""
    channel = windows.channel_axis(data_format, x.ndim)
    axes = tuple(axis for axis in range(x.ndim) if axis != channel)
    return axes, tuple(-1 if axis == channel else 1 for axis in range(x.ndim))


def _sum(x: Any, axes: tuple[int, ...], xp: Any) -> Any:
    """Sums of all channels."""
    if xp is np and x.ndim - 1 not in axes:
        # BLAS adds up in another order than NumPy: quicker, and with less rounding.
        rows = x.reshape(-1, x.shape[-1])
        return np.ones(len(rows), x.dtype) @ rows
    return xp.sum(x, axis=axes)


def _batch_moments(
    x: Any, axes: tuple[int, ...], shape: tuple[int, ...], xp: Any
) -> tuple[Any, Any]:
    if xp is np:
        count = np.float32(np.prod([x.shape[axis] for axis in axes]))
        mean = _sum(x, axes, xp) / count
        return mean, _sum(np.square(x - mean.reshape(shape)), axes, xp) / count
    mean = jnp.mean(x, axis=axes)
    return mean, jnp.mean(jnp.square(x - jnp.reshape(mean, shape)), axis=axes)


def _inverse_root(variance: Any, epsilon: float, xp: Any) -> Any:
    shifted = xp.asarray(variance).astype(np.float32) + np.float32(epsilon)
    return lax.rsqrt(shifted) if xp is jnp else 1 / np.sqrt(shifted)


def _forward(
    x: Any,
    scale: Any,
    offset: Any,
    mean: Any,
    variance: Any,
    attrs: dict[str, Any],
    xp: Any,
) -> tuple[Any, Any, Any, Any, Any]:
    """y, running mean and variance, and the mean and variance that the gradient wants."""
    if x.ndim not in (4, 5):
        raise ValueError(f"input must be 4 or 5-dimensional, got shape {x.shape}")
    kind = x.dtype
    x = xp.asarray(x).astype(xp.float32)
    axes, shape = _layout(x, attrs["data_format"])
    if attrs["is_training"]:
        used_mean, used_variance = _batch_moments(x, axes, shape, xp)
        count = int(np.prod([x.shape[axis] for axis in axes]))
        unbiased = used_variance * (count / max(count - 1, 1))
        factor = attrs["exponential_avg_factor"]
        new_mean, new_variance = used_mean, unbiased
        if factor != 1.0:
            new_mean = (1 - factor) * mean + factor * used_mean
            new_variance = (1 - factor) * variance + factor * unbiased
    else:
        used_mean, used_variance = xp.asarray(mean), xp.asarray(variance)
        new_mean, new_variance = used_mean, used_variance
    inverse = _inverse_root(used_variance, attrs["epsilon"], xp) * scale
    y = (x - xp.reshape(used_mean, shape)) * xp.reshape(inverse, shape) + xp.reshape(
        xp.asarray(offset), shape
    )
    return y.astype(kind), new_mean, new_variance, used_mean, used_variance


def _backward(
    grad: Any, x: Any, scale: Any, mean: Any, variance: Any, attrs: dict[str, Any], xp: Any
) -> tuple[Any, Any, Any]:
    """Gradients by x, scale and offset.

    When training, the moments are taken from `x` again: XLA finds that the forward pass has
    computed them already, and the second derivative by `x` is whole.
    """
    kind = x.dtype
    x, grad = xp.asarray(x).astype(xp.float32), xp.asarray(grad).astype(xp.float32)
    axes, shape = _layout(x, attrs["data_format"])
    if attrs["is_training"]:
        mean, variance = _batch_moments(x, axes, shape, xp)
    inverse = _inverse_root(variance, attrs["epsilon"], xp)
    normal = (x - xp.reshape(xp.asarray(mean), shape)) * xp.reshape(inverse, shape)
    by_offset = _sum(grad, axes, xp)
    by_scale = _sum(grad * normal, axes, xp)
    slope = xp.reshape(inverse * scale, shape)
    if attrs["is_training"]:
        count = np.float32(np.prod([x.shape[axis] for axis in axes]))
        by_x = slope * (
            grad
            - xp.reshape(by_offset / count, shape)
            - normal * xp.reshape(by_scale / count, shape)
        )
    else:
        by_x = slope * grad
    return by_x.astype(kind), by_scale, by_offset


# -- Shape rules -------------------------------------------------------------------------


def _merged_channels(c: ShapeContext, data: TensorShape, names: tuple[str, ...]) -> TensorShape:
    assert data.sizes is not None
    axis = windows.channel_axis(c.attr("data_format"), len(data.sizes))
    channels = TensorShape([data.sizes[axis]])
    for name in names:
        vector = convolution.ranked(c.shape(name), 1)
        if name in ("mean", "variance") and vector.sizes == (0,):
            continue
        try:
            channels = channels.merge_with(vector)
        except ValueError:
            raise ValueError(
                f"Dimensions must be equal, but are {channels.as_list()[0]} and "
                f"{vector.as_list()[0]}"
            ) from None
    return channels


def _data_rank(c: ShapeContext) -> int:
    return 5 if c.attr("data_format") in (b"NDHWC", b"NCDHW") else 4


def _forward_shape(c: ShapeContext) -> list[TensorShape]:
    data = convolution.ranked(c.shape("x"), _data_rank(c))
    names = (
        ("scale", "offset") if c.attr("is_training") else ("scale", "offset", "mean", "variance")
    )
    channels = _merged_channels(c, data, names)
    sizes = list(data.as_list())
    sizes[windows.channel_axis(c.attr("data_format"), len(sizes))] = channels.as_list()[0]
    shapes = [TensorShape(sizes)] + [channels] * 4
    return shapes + [unknown_shape()] * (c.output_count - len(shapes))


def _backward_shape(c: ShapeContext) -> list[TensorShape]:
    data = convolution.ranked(c.shape("x"), _data_rank(c))
    upstream = convolution.ranked(c.shape("y_backprop"), _data_rank(c))
    data = data.merge_with(upstream)
    channels = _merged_channels(c, data, ("scale",))
    return [data, channels, channels, TensorShape([0]), TensorShape([0])]


# -- Op types ----------------------------------------------------------------------------


@op(
    "FusedBatchNorm(x: T, scale: T, offset: T, mean: T, variance: T) -> (y: T, batch_mean: T, "
    "batch_variance: T, reserve_space_1: T, reserve_space_2: T) where T: {float32}; "
    f"{_EPSILON}; {_FACTOR}; {_2D}",
    shape=_forward_shape,
)
def FusedBatchNorm(
    x: Any, scale: Any, offset: Any, mean: Any, variance: Any, *, node: Any, xp: Any
) -> Any:
    """Normalises every channel by its moments over the batch (or by given ones)."""
    return _forward(x, scale, offset, mean, variance, node.attrs, xp)


@op(
    "FusedBatchNormV2(x: T, scale: U, offset: U, mean: U, variance: U) -> (y: T, batch_mean: U, "
    "batch_variance: U, reserve_space_1: U, reserve_space_2: U) where "
    f"T: {{float16, bfloat16, float32}}; U: {{float32}}; {_EPSILON}; {_FACTOR}; {_2D}",
    shape=_forward_shape,
)
def FusedBatchNormV2(
    x: Any, scale: Any, offset: Any, mean: Any, variance: Any, *, node: Any, xp: Any
) -> Any:
    """FusedBatchNorm of half precision, too."""
    return _forward(x, scale, offset, mean, variance, node.attrs, xp)


@op(
    "FusedBatchNormV3(x: T, scale: U, offset: U, mean: U, variance: U) -> (y: T, batch_mean: U, "
    "batch_variance: U, reserve_space_1: U, reserve_space_2: U, reserve_space_3: U) where "
    f"T: {{float16, bfloat16, float32}}; U: {{bfloat16, float32}}; {_EPSILON}; {_FACTOR}; "
    f"{_ANY_D}",
    shape=_forward_shape,
)
def FusedBatchNormV3(
    x: Any, scale: Any, offset: Any, mean: Any, variance: Any, *, node: Any, xp: Any
) -> Any:
    """FusedBatchNormV2 of volumes, too; the last output is for GPUs."""
    return *_forward(x, scale, offset, mean, variance, node.attrs, xp), xp.zeros((), np.float32)


@op(
    "FusedBatchNormGrad(y_backprop: T, x: T, scale: T, reserve_space_1: T, reserve_space_2: T) "
    "-> (x_backprop: T, scale_backprop: T, offset_backprop: T, reserve_space_3: T, "
    f"reserve_space_4: T) where T: {{float32}}; {_EPSILON}; {_2D}",
    shape=_backward_shape,
    gradient=JAX_GRADIENT,
)
def FusedBatchNormGrad(
    y_backprop: Any,
    x: Any,
    scale: Any,
    reserve_space_1: Any,
    reserve_space_2: Any,
    *,
    node: Any,
    xp: Any,
) -> Any:
    """The gradient of FusedBatchNorm."""
    return _with_empty(
        _backward(y_backprop, x, scale, reserve_space_1, reserve_space_2, node.attrs, xp)
    )


@op(
    "FusedBatchNormGradV2(y_backprop: T, x: T, scale: float32, reserve_space_1: U, "
    "reserve_space_2: U) -> (x_backprop: T, scale_backprop: U, offset_backprop: U, "
    "reserve_space_3: U, reserve_space_4: U) where T: {float16, bfloat16, float32}; "
    f"U: {{float32}}; {_EPSILON}; {_2D}",
    shape=_backward_shape,
    gradient=JAX_GRADIENT,
)
def FusedBatchNormGradV2(
    y_backprop: Any,
    x: Any,
    scale: Any,
    reserve_space_1: Any,
    reserve_space_2: Any,
    *,
    node: Any,
    xp: Any,
) -> Any:
    """The gradient of FusedBatchNormV2."""
    return _with_empty(
        _backward(y_backprop, x, scale, reserve_space_1, reserve_space_2, node.attrs, xp)
    )


@op(
    "FusedBatchNormGradV3(y_backprop: T, x: T, scale: float32, reserve_space_1: U, "
    "reserve_space_2: U, reserve_space_3: U) -> (x_backprop: T, scale_backprop: U, "
    "offset_backprop: U, reserve_space_4: U, reserve_space_5: U) where "
    f"T: {{float16, bfloat16, float32}}; U: {{float32}}; {_EPSILON}; {_ANY_D}",
    shape=_backward_shape,
    gradient=JAX_GRADIENT,
)
def FusedBatchNormGradV3(
    y_backprop: Any,
    x: Any,
    scale: Any,
    reserve_space_1: Any,
    reserve_space_2: Any,
    reserve_space_3: Any,
    *,
    node: Any,
    xp: Any,
) -> Any:
    """The gradient of FusedBatchNormV3."""
    return _with_empty(
        _backward(y_backprop, x, scale, reserve_space_1, reserve_space_2, node.attrs, xp)
    )


def _with_empty(gradients: tuple[Any, Any, Any]) -> tuple[Any, ...]:
    nothing = jnp.zeros((0,), jnp.float32)
    return *gradients, nothing, nothing


def _gradient_with(kind: Any, spaces: int) -> Any:
    def gradient(op: Operation, grad: Any, *unused: Any) -> Any:
        x, scale, _, mean, variance = op.inputs
        attrs = {name: op.attrs[name] for name in ("epsilon", "data_format", "is_training")}
        reserved = list(op.outputs[3 : 3 + spaces])
        if not op.attrs["is_training"]:
            reserved[:2] = [mean, variance]
        by_x, by_scale, by_offset, _, _ = kind(grad, x, scale, *reserved, **attrs)
        return by_x, by_scale, by_offset, None, None

    return gradient


FusedBatchNorm.gradient(_gradient_with(FusedBatchNormGrad, 2))
FusedBatchNormV2.gradient(_gradient_with(FusedBatchNormGradV2, 2))
FusedBatchNormV3.gradient(_gradient_with(FusedBatchNormGradV3, 3))


def _global_shape(c: ShapeContext) -> list[TensorShape]:
    data = convolution.ranked(c.shape("t"), 4)
    vector = TensorShape([data.as_list()[3]])
    return [data] if c.output_count == 1 else [data, vector, vector, vector, vector]


@op(
    "BatchNormWithGlobalNormalization(t: T, m: T, v: T, beta: T, gamma: T) -> result: T where "
    "T: number; variance_epsilon: float; scale_after_normalization: bool",
    shape=_global_shape,
    gradient=JAX_GRADIENT,
)
def BatchNormWithGlobalNormalization(
    t: Any,
    m: Any,
    v: Any,
    beta: Any,
    gamma: Any,
    *,
    variance_epsilon: float,
    scale_after_normalization: bool,
) -> Any:
    """The batch normalisation of the first releases: by given moments, channels last."""
    inverse = lax.rsqrt(jnp.asarray(v) + jnp.asarray(variance_epsilon, v.dtype))
    if scale_after_normalization:
        inverse = inverse * gamma
    return (t - m) * inverse + beta


@op(
    "BatchNormWithGlobalNormalizationGrad(t: T, m: T, v: T, gamma: T, backprop: T) -> (dx: T, "
    "dm: T, dv: T, db: T, dg: T) where T: number; variance_epsilon: float; "
    "scale_after_normalization: bool",
    shape=_global_shape,
    gradient=NO_GRADIENT,
)
def BatchNormWithGlobalNormalizationGrad(
    t: Any,
    m: Any,
    v: Any,
    gamma: Any,
    backprop: Any,
    *,
    variance_epsilon: float,
    scale_after_normalization: bool,
) -> Any:
    """The gradient of BatchNormWithGlobalNormalization."""
    axes = tuple(range(t.ndim - 1))
    grad = jnp.asarray(backprop)
    inverse = lax.rsqrt(jnp.asarray(v) + jnp.asarray(variance_epsilon, v.dtype))
    scale = inverse * gamma if scale_after_normalization else inverse
    weight = gamma if scale_after_normalization else jnp.ones((), inverse.dtype)
    by_offset = jnp.sum(grad, axis=axes)
    centred = jnp.sum(grad * (t - m), axis=axes)
    by_variance = -0.5 * centred * inverse**3 * weight
    by_scale = centred * inverse if scale_after_normalization else jnp.zeros_like(by_offset)
    return grad * scale, -by_offset * scale, by_variance.astype(t.dtype), by_offset, by_scale


# -- Public functions --------------------------------------------------------------------


def batch_normalization(
    x: Any,
    mean: Any,
    variance: Any,
    offset: Any,
    scale: Any,
    variance_epsilon: float,
    name: str | None = None,
) -> Any:
    """scale * (x - mean) / sqrt(variance + variance_epsilon) + offset.

    Args:
      x: A tensor.
      mean: A tensor that broadcasts to `x`, as the next three.
      variance: A tensor.
      offset: A tensor, or None for 0.
      scale: A tensor, or None for 1.
      variance_epsilon: Added to the variance, against division by 0.
      name: The name scope.
    """
    with name_scope(name, "batchnorm", [x, mean, variance, scale, offset]):
        x = convert_to_tensor(x, name="x")
        total: Any = convert_to_tensor(variance, name="variance")
        inverse: Any = elementwise.rsqrt(total + variance_epsilon)
        if scale is not None:
            inverse = inverse * scale
        moved = -mean * inverse if offset is None else offset - mean * inverse
        return x * inverse + moved


def batch_norm_with_global_normalization(
    t: Any = None,
    m: Any = None,
    v: Any = None,
    beta: Any = None,
    gamma: Any = None,
    variance_epsilon: Any = None,
    scale_after_normalization: Any = None,
    name: str | None = None,
    input: Any = None,
    mean: Any = None,
    variance: Any = None,
) -> Any:
    """The batch normalisation of the first releases; see `batch_normalization`.

    Args:
      t: The tensor.
      m: The mean.
      v: The variance.
      beta: The offset.
      gamma: The scale, used where `scale_after_normalization` says so.
      variance_epsilon: Added to the variance.
      scale_after_normalization: Whether to multiply by `gamma`.
      name: The name scope.
      input: The newer name of `t`.
      mean: The newer name of `m`.
      variance: The newer name of `v`.
    """
    return batch_normalization(
        convolution.one_of(input, "input", t, "t"),
        convolution.one_of(mean, "mean", m, "m"),
        convolution.one_of(variance, "variance", v, "v"),
        beta,
        gamma if scale_after_normalization else None,
        variance_epsilon,
        name,
    )


def fused_batch_norm(
    x: Any,
    scale: Any,
    offset: Any,
    mean: Any = None,
    variance: Any = None,
    epsilon: float = 0.001,
    data_format: str = "NHWC",
    is_training: bool = True,
    name: str | None = None,
    exponential_avg_factor: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Batch normalisation with the moments of the batch (training) or given ones.

    Args:
      x: Images or volumes.
      scale: A vector with an entry for each channel.
      offset: A vector with an entry for each channel.
      mean: The moving mean, when not training or with an average factor below 1.
      variance: The moving variance.
      epsilon: Added to the variance, against division by 0.
      data_format: ``NHWC``, ``NCHW``, ``NDHWC`` or ``NCDHW``.
      is_training: Whether to use the moments of the batch.
      name: The node's name.
      exponential_avg_factor: How much the batch counts in the returned moving moments.

    Returns:
      The normalised tensor, and the moving (or batch) mean and unbiased variance.

    Raises:
      ValueError: The moments are needed but not given.
    """
    if (not is_training or exponential_avg_factor != 1.0) and (mean is None or variance is None):
        raise ValueError(
            "Both `mean` and `variance` must be a 1D tensor when `is_training` is False or "
            f"`exponential_avg_factor` != 1.0. Received: `mean` {mean!r} and `variance` "
            f"{variance!r}"
        )
    x = convert_to_tensor(x, name="input")
    scale = convert_to_tensor(scale, name="scale")
    offset = convert_to_tensor(offset, name="offset")
    if mean is None:
        mean = constant.constant([], dtypes.float32)
    if variance is None:
        variance = constant.constant([], dtypes.float32)
    y, running_mean, running_variance, *_ = FusedBatchNormV3(
        x,
        scale,
        offset,
        mean,
        variance,
        epsilon=max(epsilon, _LEAST_EPSILON),
        exponential_avg_factor=exponential_avg_factor,
        data_format=data_format,
        is_training=is_training,
        name=name,
    )
    return y, running_mean, running_variance
