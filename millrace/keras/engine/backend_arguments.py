"""`tf.keras.backend`'s functions that other namespaces have too, with Keras' own arguments.

A program calls them by keyword (``K.softmax(x=…)``), and some mean another thing here: the
cross-entropies are per element, where those of `tf.keras.losses` are means.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import millrace as tf
from millrace.keras.engine import state


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: str = "int32") -> Any:
    """Numbers from `start` to below `stop`; none where a single limit is negative, as in NumPy."""
    if stop is None and not isinstance(start, tf.Tensor) and start < 0:
        start = 0
    result = tf.range(start, delta=step, name="arange") if stop is None else tf.range(
        start, stop, step, name="arange"
    )  # fmt: skip
    return result if dtype == "int32" else tf.cast(result, dtype)


def tile(x: Any, n: Any) -> Any:
    """`x` repeated `n` times along each axis."""
    return tf.tile(x, [n] if isinstance(n, int) else n)


def reshape(x: Any, shape: Any) -> Any:
    """The same values in another shape."""
    return tf.reshape(x, shape)


def shape(x: Any) -> Any:
    """The shape, as a tensor."""
    return tf.shape(x)


def transpose(x: Any) -> Any:
    """The axes in reverse order."""
    return tf.transpose(x)


def eye(size: int, dtype: Any = None, name: str | None = None) -> Any:
    """A variable that holds the identity matrix."""
    from_floatx = tf.as_dtype(dtype or state.floatx())
    return tf.Variable(tf.eye(size, dtype=from_floatx), dtype=from_floatx, name=name)


def one_hot(indices: Any, num_classes: int) -> Any:
    """One-hot rows of integers."""
    return tf.one_hot(indices, depth=num_classes, axis=-1)


def stop_gradient(variables: Any) -> Any:
    """Its values, through which no gradient flows; a list of them for a list."""
    if isinstance(variables, list | tuple):
        return [tf.stop_gradient(each) for each in variables]
    return tf.stop_gradient(variables)


def cumsum(x: Any, axis: int = 0) -> Any:
    """Sums of all entries up to each."""
    return tf.cumsum(x, axis=axis)


def cumprod(x: Any, axis: int = 0) -> Any:
    """Products of all entries up to each."""
    return tf.cumprod(x, axis=axis)


def map_fn(fn: Callable[..., Any], elems: Any, name: str | None = None, dtype: Any = None) -> Any:
    """`fn` of each element."""
    return tf.map_fn(fn, elems, name=name, dtype=dtype)


def foldl(
    fn: Callable[..., Any], elems: Any, initializer: Any = None, name: str | None = None
) -> Any:
    """The elements put together by `fn`, from the left."""
    return tf.foldl(fn, elems, initializer=initializer, name=name)


def foldr(
    fn: Callable[..., Any], elems: Any, initializer: Any = None, name: str | None = None
) -> Any:
    """The elements put together by `fn`, from the right."""
    return tf.foldr(fn, elems, initializer=initializer, name=name)


def elu(x: Any, alpha: float = 1.0) -> Any:
    """``x`` where positive, ``alpha·(eˣ − 1)`` elsewhere."""
    result = tf.nn.elu(x)
    return result if alpha == 1 else tf.where(x > 0, result, alpha * result)


def softmax(x: Any, axis: int = -1) -> Any:
    """Softmax along an axis."""
    return tf.nn.softmax(x, axis=axis)


def softplus(x: Any) -> Any:
    """``log(1 + eˣ)``."""
    return tf.nn.softplus(x)


def softsign(x: Any) -> Any:
    """``x / (|x| + 1)``."""
    return tf.nn.softsign(x)


def in_top_k(predictions: Any, targets: Any, k: Any) -> Any:
    """Whether each target is among its row's `k` greatest predictions."""
    return tf.nn.in_top_k(predictions, targets, k)


def bias_add(x: Any, bias: Any, data_format: str | None = None) -> Any:
    """`x` and a bias: a vector of the channels, or of the rank of one example.

    Raises:
      ValueError: Unknown data_format, or a bias of another rank.
    """
    data_format = data_format or state.image_data_format()
    if data_format not in ("channels_first", "channels_last"):
        raise ValueError(f"Unknown data_format: {data_format}")
    sizes, rank = bias.shape.as_list(), x.shape.ndims
    if len(sizes) not in (1, rank - 1):
        raise ValueError(
            f"Unexpected bias dimensions {len(sizes)}, expect to be 1 or {rank} dimensions"
        )
    if len(sizes) == 1:
        form = [1, sizes[0]] + [1] * (rank - 2) if data_format == "channels_first" else None
    elif data_format == "channels_first":
        form = [1, sizes[-1], *sizes[:-1]]
    else:
        form = [1, *sizes]
    if form is None and rank > 2:
        return tf.nn.bias_add(x, bias)
    return x + (bias if form is None else tf.reshape(bias, form))


def _logits_of(output: Any, kind: str) -> Any:
    """What an activation was given, if `output` is what that activation made; else None."""
    made = isinstance(output, tf.Tensor) and output.op.type == kind
    return output.op.inputs[0] if made else None


def _probabilities(output: Any) -> Any:
    return tf.clip_by_value(output, state.epsilon(), 1.0 - state.epsilon())


def binary_crossentropy(target: Any, output: Any, from_logits: bool = False) -> Any:
    """The cross-entropy of independent probabilities, per element."""
    output = tf.convert_to_tensor(output)
    target = tf.convert_to_tensor(target, dtype=output.dtype.base_dtype)
    logits = output if from_logits else _logits_of(output, "Sigmoid")
    if logits is not None:
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=target, logits=logits)
    output = _probabilities(output)
    entropy = target * tf.log(output + state.epsilon())
    return -(entropy + (1 - target) * tf.log(1 - output + state.epsilon()))


def categorical_crossentropy(
    target: Any, output: Any, from_logits: bool = False, axis: int = -1
) -> Any:
    """The cross-entropy of distributions along an axis, per example."""
    output = tf.convert_to_tensor(output)
    target = tf.convert_to_tensor(target, dtype=output.dtype.base_dtype)
    logits = output if from_logits else _logits_of(output, "Softmax")
    if logits is not None:
        return tf.nn.softmax_cross_entropy_with_logits_v2(labels=target, logits=logits, axis=axis)
    output = _probabilities(output / tf.reduce_sum(output, axis, True))
    return -tf.reduce_sum(target * tf.log(output), axis)


def sparse_categorical_crossentropy(
    target: Any, output: Any, from_logits: bool = False, axis: int = -1
) -> Any:
    """The cross-entropy of classes that are numbers, in the shape of `output` without its axis."""
    output = tf.convert_to_tensor(output)
    logits = output if from_logits else _logits_of(output, "Softmax")
    if logits is None:
        logits = tf.log(_probabilities(output))
    rank = logits.shape.ndims
    if axis not in (-1, rank - 1 if rank else -1):
        place = axis % rank
        order = [i for i in range(rank) if i != place] + [place]
        logits = tf.transpose(logits, order)
    classes = tf.shape(logits)[-1]
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=tf.cast(tf.reshape(target, [-1]), tf.int64),
        logits=tf.reshape(logits, tf.stack([-1, classes])),
    )
    return tf.reshape(losses, tf.shape(logits)[:-1]) if rank is None or rank >= 3 else losses
