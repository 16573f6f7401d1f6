"""Keras's names for operations: thin, on the public namespace."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import millrace as tf
from millrace.keras import activations
from millrace.keras.engine import state
from millrace.keras.engine.naming import smart_cond
from millrace.ops.state import variable_changes


def variable(value: Any, dtype: Any = None, name: str | None = None, constraint: Any = None) -> Any:
    """A variable, which `get_session` initialises."""
    made = tf.Variable(
        value, dtype=tf.as_dtype(dtype or state.floatx()), name=name, constraint=constraint,
        use_resource=True,
    )  # fmt: skip
    state.track_variable(made)
    return made


def constant(value: Any, dtype: Any = None, shape: Any = None, name: str | None = None) -> Any:
    """A constant."""
    return tf.constant(value, dtype=dtype or state.floatx(), shape=shape, name=name or "Const")


def placeholder(
    shape: Any = None, ndim: int | None = None, dtype: Any = None, sparse: bool = False,
    name: str | None = None, ragged: bool = False,
) -> Any:  # fmt: skip
    """A placeholder."""
    if ragged:
        raise ValueError("K.placeholder(ragged=True) is not in Millrace; give a sparse one.")
    if shape is None and ndim is not None:
        shape = (None,) * ndim
    kind = tf.as_dtype(dtype or state.floatx())
    return tf.sparse_placeholder(kind, shape, name) if sparse else tf.placeholder(kind, shape, name)


def cast_to_floatx(x: Any) -> Any:
    """An array of the default type."""
    return np.asarray(x, dtype=state.floatx())


def cast(x: Any, dtype: Any) -> Any:
    """`tf.cast`."""
    return tf.cast(x, dtype)


def int_shape(x: Any) -> Any:
    """The static shape as a tuple, or None."""
    shape = tf.TensorShape(x.shape)
    return None if shape.ndims is None else tuple(shape.as_list())


def ndim(x: Any) -> int | None:
    """The rank."""
    return tf.TensorShape(x.shape).ndims


def dtype(x: Any) -> str:
    """The name of the type."""
    return str(x.dtype.base_dtype.name)


def get_value(x: Any) -> Any:
    """The value of a variable or tensor."""
    return state.get_session().run(x)


def batch_get_value(tensors: Any) -> list[Any]:
    """The values of several."""
    return list(state.get_session().run(list(tensors))) if tensors else []


def set_value(x: Any, value: Any) -> None:
    """Sets a variable."""
    x.load(np.asarray(value, x.dtype.base_dtype.as_numpy_dtype), state.get_session())


def batch_set_value(tuples: Any) -> None:
    """Sets several."""
    for x, value in tuples:
        set_value(x, value)


def eval(x: Any) -> Any:
    """The value."""
    return get_value(x)


def update(x: Any, new_x: Any) -> Any:
    """Assigns."""
    return variable_changes.assign(x, new_x)


def update_add(x: Any, increment: Any) -> Any:
    """Adds to a variable."""
    return variable_changes.assign_add(x, increment)


def update_sub(x: Any, decrement: Any) -> Any:
    """Subtracts from a variable."""
    return variable_changes.assign_sub(x, decrement)


def zeros(shape: Any, dtype: Any = None, name: str | None = None) -> Any:
    """A variable of zeros."""
    return variable(np.zeros(shape), dtype, name)


def ones(shape: Any, dtype: Any = None, name: str | None = None) -> Any:
    """A variable of ones."""
    return variable(np.ones(shape), dtype, name)


def dot(x: Any, y: Any) -> Any:
    """The product; of more than two dimensions over the last of x and the last but one of y."""
    if (ndim(x) or 2) > 2 or (ndim(y) or 2) > 2:
        return tf.tensordot(x, y, [[(ndim(x) or 2) - 1], [max((ndim(y) or 2) - 2, 0)]])
    if isinstance(x, tf.SparseTensor):
        return tf.sparse_tensor_dense_matmul(x, y)
    return tf.matmul(x, y)


def sum(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The sum."""
    return tf.reduce_sum(x, axis, keepdims)


def prod(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The product."""
    return tf.reduce_prod(x, axis, keepdims)


def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The mean; of truth values as numbers."""
    if x.dtype.base_dtype == tf.bool:
        x = tf.cast(x, state.floatx())
    return tf.reduce_mean(x, axis, keepdims)


def var(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The variance."""
    middle = tf.reduce_mean(x, axis, True)
    return tf.reduce_mean(tf.square(x - middle), axis, keepdims)


def std(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The standard deviation."""
    return tf.sqrt(var(x, axis, keepdims))


def max(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The largest."""
    return tf.reduce_max(x, axis, keepdims)


def min(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The smallest."""
    return tf.reduce_min(x, axis, keepdims)


def any(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether any is true."""
    return tf.reduce_any(tf.cast(x, tf.bool), axis, keepdims)


def all(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether all are true."""
    return tf.reduce_all(tf.cast(x, tf.bool), axis, keepdims)


def argmax(x: Any, axis: int = -1) -> Any:
    """The place of the largest."""
    return tf.argmax(x, axis)


def argmin(x: Any, axis: int = -1) -> Any:
    """The place of the smallest."""
    return tf.argmin(x, axis)


def clip(x: Any, min_value: Any, max_value: Any) -> Any:
    """Values between two bounds."""
    return tf.clip_by_value(x, min_value, max_value)


def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The logarithm of the sum of exponentials."""
    return tf.reduce_logsumexp(x, axis, keepdims)


def concatenate(tensors: Any, axis: int = -1) -> Any:
    """Side by side."""
    return tf.concat(tensors, axis)


def permute_dimensions(x: Any, pattern: Any) -> Any:
    """Axes in another order."""
    return tf.transpose(x, perm=pattern)


def batch_flatten(x: Any) -> Any:
    """All axes but the first become one."""
    sizes: list[Any] = x.shape.as_list()[1:]
    if None in sizes:
        return tf.reshape(x, tf.stack([tf.shape(x)[0], -1]))
    return tf.reshape(x, [-1, math.prod(sizes)])


def flatten(x: Any) -> Any:
    """One axis."""
    return tf.reshape(x, [-1])


def expand_dims(x: Any, axis: int = -1) -> Any:
    """One more axis."""
    return tf.expand_dims(x, axis)


def squeeze(x: Any, axis: int) -> Any:
    """Without an axis of size 1."""
    return tf.squeeze(x, [axis])


def repeat_elements(x: Any, rep: int, axis: int) -> Any:
    """Each slice along an axis `rep` times."""
    return tf.concat(
        [s for s in tf.split(x, x.shape.as_list()[axis], axis) for _ in range(rep)], axis
    )


def reverse(x: Any, axes: Any) -> Any:
    """Backwards along axes."""
    return tf.reverse(x, [axes] if isinstance(axes, int) else axes)


def gather(reference: Any, indices: Any) -> Any:
    """Rows."""
    return tf.gather(reference, indices)


def switch(condition: Any, then_expression: Any, else_expression: Any) -> Any:
    """One of two, by a condition."""
    if condition.shape.ndims == 0 or callable(then_expression):
        then_fn = then_expression if callable(then_expression) else lambda: then_expression
        else_fn = else_expression if callable(else_expression) else lambda: else_expression
        return tf.cond(tf.cast(condition, tf.bool), then_fn, else_fn)
    return tf.where(condition, then_expression, else_expression)


def in_train_phase(x: Any, alt: Any, training: Any = None) -> Any:
    """`x` in training, else `alt`."""
    training = state.learning_phase() if training is None else training
    first = x if callable(x) else lambda: tf.identity(x)
    second = alt if callable(alt) else lambda: tf.identity(alt)
    return smart_cond(training, first, second)


def in_test_phase(x: Any, alt: Any, training: Any = None) -> Any:
    """`x` in inference, else `alt`."""
    return in_train_phase(alt, x, training)


def gradients(loss: Any, variables: Any) -> list[Any]:
    """The gradients."""
    return list(tf.gradients(loss, variables))


def l2_normalize(x: Any, axis: Any = None) -> Any:
    """Vectors of length 1."""
    return tf.nn.l2_normalize(x, axis)


def dropout(x: Any, level: float, noise_shape: Any = None, seed: int | None = None) -> Any:
    """Dropout."""
    return tf.nn.dropout(x, noise_shape=noise_shape, seed=seed, rate=level)


def relu(x: Any, alpha: float = 0.0, max_value: float | None = None, threshold: float = 0) -> Any:
    """The rectifier."""
    return activations.relu(x, alpha, max_value, threshold)


def random_normal(
    shape: Any, mean: float = 0.0, stddev: float = 1.0, dtype: Any = None, seed: int | None = None
) -> Any:
    """Normal values."""
    return tf.random_normal(shape, mean, stddev, dtype or state.floatx(), seed)


def random_uniform(
    shape: Any, minval: float = 0.0, maxval: float = 1.0, dtype: Any = None,
    seed: int | None = None,
) -> Any:  # fmt: skip
    """Uniform values."""
    return tf.random_uniform(shape, minval, maxval, dtype or state.floatx(), seed)


def truncated_normal(
    shape: Any, mean: float = 0.0, stddev: float = 1.0, dtype: Any = None, seed: int | None = None
) -> Any:
    """Truncated normal values."""
    return tf.truncated_normal(shape, mean, stddev, dtype or state.floatx(), seed)


def function(inputs: Any, outputs: Any, updates: Any = None, **kwargs: Any) -> Any:
    """A Python function of arrays that runs the graph."""
    single = not isinstance(outputs, list | tuple)
    with tf.control_dependencies(list(tf.nest.flatten(outputs))):
        others = tf.group(*[getattr(u, "op", u) for u in updates or []])

    def run(values: Any) -> Any:
        feed = dict(zip(inputs, values, strict=True))
        found = state.get_session().run([outputs if single else list(outputs), others], feed)
        return found[0]

    return run


def ctc_label_dense_to_sparse(labels: Any, label_lengths: Any) -> Any:
    """Labels as a sparse tensor, without what is past each length."""
    mask = tf.sequence_mask(label_lengths, tf.shape(labels)[1])
    places = tf.where(mask)
    return tf.SparseTensor(
        places, tf.gather_nd(labels, places), tf.shape(labels, out_type=tf.int64)
    )


def ctc_batch_cost(y_true: Any, y_pred: Any, input_length: Any, label_length: Any) -> Any:
    """The CTC loss of each example."""
    labels = tf.cast(
        ctc_label_dense_to_sparse(y_true, tf.cast(tf.squeeze(label_length, [-1]), tf.int32)),
        tf.int32,
    )
    logits = tf.log(tf.transpose(y_pred, [1, 0, 2]) + state.epsilon())
    lengths = tf.cast(tf.squeeze(input_length, [-1]), tf.int32)
    return tf.expand_dims(tf.nn.ctc_loss(labels, logits, lengths), 1)


def ctc_decode(
    y_pred: Any, input_length: Any, greedy: bool = True, beam_width: int = 100, top_paths: int = 1
) -> tuple[list[Any], Any]:
    """Decoded label sequences, dense and filled up with -1, and their scores."""
    inputs = tf.log(tf.transpose(y_pred, [1, 0, 2]) + state.epsilon())
    lengths = tf.cast(input_length, tf.int32)
    if greedy:
        decoded, scores = tf.nn.ctc_greedy_decoder(inputs, lengths)
    else:
        decoded, scores = tf.nn.ctc_beam_search_decoder(
            inputs, lengths, beam_width=beam_width, top_paths=top_paths
        )
    dense = [
        tf.sparse_to_dense(each.indices, each.dense_shape, each.values, default_value=-1)
        for each in decoded
    ]
    return dense, scores


def backend() -> str:
    """``tensorflow``."""
    return "tensorflow"


def count_params(x: Any) -> int:
    """How many elements a variable has."""
    return int(np.prod(x.shape.as_list()))


def is_sparse(tensor: Any) -> bool:
    """Whether it is a SparseTensor."""
    return isinstance(tensor, tf.SparseTensor)


def to_dense(tensor: Any) -> Any:
    """A SparseTensor as a tensor, anything else as it is."""
    return tf.sparse.to_dense(tensor) if is_sparse(tensor) else tensor


def moving_average_update(x: Any, value: Any, momentum: float) -> Any:
    """Moves a variable towards a value: ``x ← x · momentum + value · (1 − momentum)``."""
    return variable_changes.assign_sub(x, (x - value) * (1 - momentum))


def print_tensor(x: Any, message: str = "") -> Any:
    """The tensor, which is printed whenever it is computed."""
    return tf.Print(x, [x], message)


def random_binomial(shape: Any, p: float = 0.0, dtype: Any = None, seed: int | None = None) -> Any:
    """Ones with probability `p`, else zeros."""
    kind = tf.as_dtype(dtype or state.floatx())
    drawn = tf.random_uniform(shape, dtype=kind, seed=seed)
    return tf.where(drawn <= p, tf.ones(shape, kind), tf.zeros(shape, kind))


def random_normal_variable(
    shape: Any, mean: float, scale: float, dtype: Any = None, name: str | None = None,
    seed: int | None = None,
) -> Any:  # fmt: skip
    """A variable that begins with normal random numbers."""
    kind = dtype or state.floatx()
    return variable(tf.random_normal(shape, mean, scale, tf.as_dtype(kind), seed), kind, name)


def random_uniform_variable(
    shape: Any, low: float, high: float, dtype: Any = None, name: str | None = None,
    seed: int | None = None,
) -> Any:  # fmt: skip
    """A variable that begins with uniform random numbers."""
    kind = dtype or state.floatx()
    return variable(tf.random_uniform(shape, low, high, tf.as_dtype(kind), seed), kind, name)


def repeat(x: Any, n: int) -> Any:
    """``[batch, features]`` as ``[batch, n, features]``."""
    return tf.tile(tf.expand_dims(x, 1), tf.stack([1, n, 1]))


def get_graph() -> Any:
    """The graph that layers are built in."""
    return tf.get_default_graph()
