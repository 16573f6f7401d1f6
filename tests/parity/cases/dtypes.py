"""One case per dtype: every array op that takes any type, and all math that the type has."""

import ml_dtypes
import numpy as np
from parity_kit import Input, case, strings

TYPES = [
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
    "complex64",
    "complex128",
]


def _numpy(name):
    return ml_dtypes.bfloat16 if name == "bfloat16" else np.dtype(name)


def _values(name, *shape, low=-4, high=5):
    """Small whole numbers: exact in every type, and no difference between them overflows."""
    if name.startswith("uint") or name == "bool":
        low, high = (0, 2) if name == "bool" else (0, 5)

    def make(rng):
        drawn = rng.randint(low, high, size=shape)
        if name.startswith("complex"):
            drawn = drawn + 1j * rng.randint(low, high, size=shape)
        return np.asarray(drawn).astype(_numpy(name))

    return Input(make)


def _array_ops(tf, x, y):
    made = {
        "identity": tf.identity(x),
        "reshape": tf.reshape(x, [3, 2]),
        "transpose": tf.transpose(x),
        "concat": tf.concat([x, y], 1),
        "stack": tf.stack([x, y], 1),
        "unstack": tf.unstack(x, axis=1),
        "split": tf.split(x, [1, 2], 1),
        "slice": tf.slice(x, [0, 1], [2, 2]),
        "strided": x[::-1, ::2],
        "tile": tf.tile(x, [1, 2]),
        "gather": tf.gather(x, [1, 0, 1]),
        "gather_nd": tf.gather_nd(x, [[1, 2], [0, 0]]),
        "expand_dims": tf.expand_dims(x, 1),
        "squeeze": tf.squeeze(x[:, :1]),
        "reverse": tf.reverse(x, [1]),
        "pad": tf.pad(x, [[0, 1], [1, 0]]),
        "where": tf.where([True, False], x, y),
        "broadcast_to": tf.broadcast_to(x, [2, 2, 3]),
        "fill": tf.fill([2], x[0, 0]),
        "zeros_like": tf.zeros_like(x),
        "dynamic_partition": tf.dynamic_partition(x, [1, 0], 2),
        "dynamic_stitch": tf.dynamic_stitch([[1], [0]], [x[:1], y[:1]]),
        "boolean_mask": tf.boolean_mask(x, [False, True]),
        "equal": tf.equal(x, y),
        "not_equal": tf.not_equal(x, y),
        "roll": tf.roll(x, 1, 1),
        "reverse_sequence": tf.reverse_sequence(x, [1, 3], seq_axis=1),
        "cond": tf.cond(tf.constant(True), lambda: x, lambda: y),
        "loop": tf.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, tf.reverse(v, [0])), [0, x])[
            1
        ],
    }
    if x.dtype.base_dtype == tf.uint16:
        made.pop("tile")
    if x.dtype.base_dtype != tf.string:
        made["ones_like"] = tf.ones_like(x)
        made["scatter_nd"] = tf.scatter_nd([[2], [0]], x, [3, 3])
        made["one_hot"] = tf.one_hot([1, 0], 3, x[0, 0], x[1, 1])
        made["matrix_band_part"] = tf.matrix_band_part(x, 0, 0)
        made["matrix_diag"] = tf.matrix_diag(x[0])
    return made


for _name in TYPES:

    @case(
        f"array_{_name}", {"x": _values(_name, 2, 3), "y": _values(_name, 2, 3)}, variants=["known"]
    )
    def array_ops(tf, x, y):
        return _array_ops(tf, x, y)


@case(
    "array_string",
    {
        "x": strings([["a", "", "c"], ["d", "e", "ff"]]),
        "y": strings([["a", "y", "z"], ["u", "e", "w"]]),
    },
    variants=["known"],
)
def array_ops_of_strings(tf, x, y):
    return _array_ops(tf, x, y)


BINARY = (
    "add",
    "subtract",
    "multiply",
    "maximum",
    "minimum",
    "less",
    "greater_equal",
    "floordiv",
    "floormod",
    "squared_difference",
)
SIGNED = ("negative", "abs", "sign", "square")
REDUCTIONS = ("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_mean")
# What TensorFlow has no kernel for.
WITHOUT = {
    "uint8": {"subtract", "squared_difference", "negative", "abs", "sign", "cumsum", "square"},
    "uint16": {"subtract", "squared_difference", "negative", "abs", "sign", "square"},
    "uint32": {"subtract", "squared_difference", "negative", "abs", "sign", "square"},
    "uint64": {"subtract", "squared_difference", "negative", "abs", "sign", "square"},
    "int8": {"squared_difference", "square"},
    "int16": {"squared_difference", "square"},
}


def _math_ops(tf, name, x, y):
    made = {}
    without = WITHOUT.get(name, set())
    nonzero = tf.where(tf.equal(y, tf.zeros_like(y)), tf.ones_like(y), y)
    for function in BINARY:
        if function not in without:
            made[function] = getattr(tf, function)(x, nonzero)
    for function in SIGNED:
        if function not in without:
            made[function] = getattr(tf, function)(x)
    for function in REDUCTIONS:
        made[function] = getattr(tf, function)(x, 1)
    made["argmax"] = tf.argmax(x, 1)
    made["add_n"] = tf.add_n([x, y])
    made["segment_sum"] = tf.segment_sum(x, [0, 0])
    made["unsorted_segment_sum"] = tf.unsorted_segment_sum(x, [1, 0], 2)
    if name not in NO_RANGE:
        made["range"] = tf.range(tf.cast(1, x.dtype), tf.cast(4, x.dtype), tf.cast(1, x.dtype))
    return made


NO_RANGE = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "float16")

for _name in TYPES:
    if _name == "bool" or _name.startswith("complex"):
        continue

    @case(
        f"math_{_name}", {"x": _values(_name, 2, 3), "y": _values(_name, 2, 3)}, variants=["known"]
    )
    def math_ops(tf, x, y, name=_name):
        return _math_ops(tf, name, x, y)


for _name in ("complex64", "complex128"):

    @case(
        f"math_{_name}", {"x": _values(_name, 2, 3), "y": _values(_name, 2, 3)}, variants=["known"]
    )
    def complex_ops(tf, x, y):
        made = {
            n: getattr(tf, n)(x, y) for n in ("add", "subtract", "multiply", "squared_difference")
        }
        made.update(
            {
                n: getattr(tf, n)(x)
                for n in ("negative", "square", "conj", "real", "imag", "abs", "sign", "exp")
            }
        )
        made.update(
            {
                n: getattr(tf, n)(x, 0)
                for n in ("reduce_sum", "reduce_mean", "reduce_prod", "cumsum", "cumprod")
            }
        )
        made["matmul"] = tf.matmul(x, y, transpose_b=True)
        made["segment_sum"] = tf.segment_sum(x, [0, 1])
        return made


for _name in ("float16", "bfloat16", "float64"):

    @case(
        f"nn_{_name}",
        {
            "x": _values(_name, 2, 3),
            "w": _values(_name, 3, 2),
            "i": _values(_name, 1, 4, 4, 2),
            "f": _values(_name, 2, 2, 2, 2),
        },
        variants=["known"],
        rtol=None if _name == "float64" else 2e-2,
        atol=None if _name == "float64" else 2e-2,
    )
    def nn_ops(tf, x, w, i, f):
        return {
            "matmul": tf.matmul(x, w),
            "bias_add": tf.nn.bias_add(tf.matmul(x, w), w[0]),
            "relu": tf.nn.relu(x),
            "relu6": tf.nn.relu6(x),
            "sigmoid": tf.sigmoid(x),
            "tanh": tf.tanh(x),
            "softmax": tf.nn.softmax(x),
            "log_softmax": tf.nn.log_softmax(x),
            "xent": tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[0, 2], logits=x),
            "dense_xent": tf.nn.softmax_cross_entropy_with_logits(
                labels=tf.ones_like(x) / 3, logits=x
            ),
            "sigmoid_xent": tf.nn.sigmoid_cross_entropy_with_logits(
                labels=tf.zeros_like(x), logits=x
            ),
            "conv2d": tf.nn.conv2d(i, f, 1, "SAME"),
            "max_pool": tf.nn.max_pool(i, 2, 2, "VALID"),
            "avg_pool": tf.nn.avg_pool(i, 2, 2, "VALID"),
            "l2_loss": tf.nn.l2_loss(x),
            "top_k": tf.nn.top_k(x, 2).values,
            "moments": tf.nn.moments(x, [0]),
        }


for _name in (
    "float32",
    "float64",
    "int32",
    "int64",
    "bool",
    "string",
    "complex64",
    "float16",
    "uint8",
    "int8",
):

    @case(
        f"variable_{_name}",
        {
            "x": strings([["a", "b", "c"], ["d", "", "f"]])
            if _name == "string"
            else _values(_name, 2, 3)
        },
        variants=["known"],
    )
    def variable_of_type(tf, x):
        v = tf.Variable(tf.zeros([2, 3], x.dtype) if x.dtype != tf.string else tf.fill([2, 3], "?"))
        return tf.assign(v, x)
