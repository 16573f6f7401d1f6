"""`tf.compat.v2`: what means the same in TensorFlow 1 and 2, and functions whose arguments moved.

A name is here only if it is the same object in TensorFlow 1.15's two namespaces, or if version
2's arguments are some of version 1's in another order (`_MOVED`). Everything else is refused.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

from millrace.graph import defaults

#: Same object in both versions.
_SAME = frozenset(
    "AggregationMethod Assert CriticalSection DType GradientTape Graph IndexedSlices Module "
    "Operation RaggedTensor RaggedTensorSpec RegisterGradient SparseTensor SparseTensorSpec Tensor "
    "TensorArray TensorShape TensorSpec TypeSpec UnconnectedGradients Variable VariableAggregation "
    "VariableSynchronization abs acos acosh add add_n argsort as_dtype as_string asin asinh atan "
    "atan2 atanh bfloat16 bitcast bool broadcast_dynamic_shape broadcast_static_shape broadcast_to "
    "cast clip_by_global_norm clip_by_norm clip_by_value compat complex complex128 complex64 "
    "concat control_dependencies cos cosh cumsum custom_gradient device divide double "
    "dynamic_partition dynamic_stitch edit_distance einsum ensure_shape equal executing_eagerly "
    "exp eye fill fingerprint float16 float32 float64 floor foldl foldr function get_logger "
    "get_static_value grad_pass_through greater greater_equal group guarantee_const half "
    "histogram_fixed_width identity identity_n import_graph_def init_scope int16 int32 int64 int8 "
    "is_tensor less less_equal linspace logical_and logical_not logical_or make_ndarray "
    "make_tensor_proto map_fn matmul matrix_square_root maximum meshgrid minimum multiply negative "
    "newaxis no_gradient no_op not_equal numpy_function one_hot ones parallel_stack pow print "
    "py_function qint16 qint32 qint8 quint16 quint8 range rank realdiv recompute_grad "
    "register_tensor_conversion_function repeat reshape resource reverse roll round saturate_cast "
    "scan scatter_nd searchsorted sequence_mask shape_n sigmoid sign sin sinh slice sort "
    "space_to_batch_nd split sqrt square stack stop_gradient strided_slice string subtract "
    "switch_case tan tanh tensor_scatter_nd_add tensor_scatter_nd_sub tensor_scatter_nd_update "
    "tensordot tile timestamp truediv truncatediv truncatemod uint16 uint32 uint64 uint8 unique "
    "unique_with_counts unravel_index unstack variant zeros".split()
)
#: Namespaces that are the same in both, but for these names of each.
_NAMESPACES: dict[str, frozenset[str]] = {
    "audio": frozenset(),
    "bitwise": frozenset(),
    "config": frozenset(),
    "data": frozenset("Dataset FixedLengthRecordDataset TFRecordDataset TextLineDataset".split()),
    "debugging": frozenset("assert_all_finite assert_near assert_scalar assert_type".split()),
    "distribute": frozenset(),
    "dtypes": frozenset(),
    "errors": frozenset(),
    "feature_column": frozenset("make_parse_example_spec shared_embeddings".split()),
    "image": frozenset(
        "ResizeMethod crop_and_resize draw_bounding_boxes extract_glimpse resize resize_with_pad "
        "sample_distorted_bounding_box".split()
    ),
    "io": frozenset(
        "decode_csv decode_raw parse_example parse_single_example serialize_many_sparse "
        "serialize_sparse".split()
    ),
    # Of Keras a few layers differ in what they compute with, not in what they mean.
    "keras": frozenset(),
    "linalg": frozenset("l2_normalize norm".split()),
    "math": frozenset("bincount confusion_matrix in_top_k scalar_mul".split()),
    "nest": frozenset(),
    "nn": frozenset(
        "avg_pool batch_norm_with_global_normalization conv1d conv2d_transpose conv3d "
        "conv3d_transpose convolution crelu ctc_beam_search_decoder ctc_loss depthwise_conv2d "
        "dilation2d erosion2d fractional_avg_pool fractional_max_pool max_pool "
        "max_pool_with_argmax nce_loss pool sampled_softmax_loss separable_conv2d space_to_batch "
        "sufficient_statistics weighted_cross_entropy_with_logits weighted_moments "
        "embedding_lookup embedding_lookup_sparse".split()
    ),
    "quantization": frozenset(),
    "ragged": frozenset(),
    "random": frozenset(["poisson"]),
    "saved_model": frozenset("contains_saved_model load".split()),
    "sets": frozenset(),
    "signal": frozenset(),
    "sparse": frozenset(
        "add concat reduce_max reduce_sum segment_mean segment_sqrt_n segment_sum split".split()
    ),
    "test": frozenset("assert_equal_graph_def compute_gradient".split()),
    "train": frozenset(),
    "strings": frozenset("length reduce_join split substr to_hash_bucket to_number".split()),
}
_REDUCTION = "(input_tensor, axis=None, keepdims=False, name=None)"
#: Version 2's arguments; all are version 1's, too.
_MOVED = (
    {
        "argmax": "(input, axis=None, output_type='int64', name=None)",
        "argmin": "(input, axis=None, output_type='int64', name=None)",
        "boolean_mask": "(tensor, mask, axis=None, name='boolean_mask')",
        "case": "(pred_fn_pairs, default=None, exclusive=False, strict=False, name='case')",
        "cond": "(pred, true_fn=None, false_fn=None, name=None)",
        "constant": "(value, dtype=None, shape=None, name='Const')",
        "convert_to_tensor": "(value, dtype=None, dtype_hint=None, name=None)",
        "expand_dims": "(input, axis, name=None)",
        "gather": "(params, indices, validate_indices=None, axis=None, batch_dims=0, name=None)",
        "gather_nd": "(params, indices, batch_dims=0, name=None)",
        "gradients": (
            "(ys, xs, grad_ys=None, name='gradients', gate_gradients=False, "
            "aggregation_method=None, stop_gradients=None, unconnected_gradients='none')"
        ),
        "nn.conv2d": (
            "(input, filters, strides, padding, data_format='NHWC', dilations=None, name=None)"
        ),
        "nn.dropout": "(x, rate, noise_shape=None, seed=None, name=None)",
        "nn.in_top_k": "(targets, predictions, k, name=None)",
        "nn.l2_normalize": "(x, axis=None, epsilon=1e-12, name=None)",
        "nn.log_softmax": "(logits, axis=None, name=None)",
        "nn.moments": "(x, axes, shift=None, keepdims=False, name=None)",
        "nn.sigmoid_cross_entropy_with_logits": "(labels=None, logits=None, name=None)",
        "nn.softmax": "(logits, axis=None, name=None)",
        "nn.softmax_cross_entropy_with_logits": "(labels, logits, axis=-1, name=None)",
        "nn.sparse_softmax_cross_entropy_with_logits": "(labels, logits, name=None)",
        "norm": "(tensor, ord='euclidean', axis=None, keepdims=None, name=None)",
        "ones_like": "(input, dtype=None, name=None)",
        "pad": "(tensor, paddings, mode='CONSTANT', constant_values=0, name=None)",
        "shape": "(input, out_type='int32', name=None)",
        "size": "(input, out_type='int32', name=None)",
        "squeeze": "(input, axis=None, name=None)",
        "transpose": "(a, perm=None, conjugate=False, name='transpose')",
        "zeros_like": "(input, dtype=None, name=None)",
    }
    | {
        f"reduce_{kind}": _REDUCTION
        for kind in ("all", "any", "logsumexp", "max", "mean", "min", "prod", "sum")
    }
    | {
        f"debugging.assert_{kind}": "(x, y, message=None, summarize=None, name=None)"
        for kind in ("equal", "greater", "greater_equal", "less", "less_equal", "none_equal")
    }
    | {
        f"debugging.assert_{kind}": "(x, message=None, summarize=None, name=None)"
        for kind in ("negative", "non_negative", "non_positive", "positive")
    }
    | {
        "debugging.assert_integer": "(x, message=None, name=None)",
        "debugging.assert_rank": "(x, rank, message=None, name=None)",
        "debugging.assert_rank_at_least": "(x, rank, message=None, name=None)",
        "debugging.assert_rank_in": "(x, ranks, message=None, name=None)",
        "debugging.assert_shapes": "(shapes, data=None, summarize=None, message=None, name=None)",
    }
)
#: Arguments that have another name in version 1.
_RENAMED = {
    "nn.conv2d": {"filters": "filter"},
    "nn.moments": {"keepdims": "keep_dims"},
    "ones_like": {"input": "tensor"},
    "zeros_like": {"input": "tensor"},
}
#: Version 1's function where it has another name.
_FUNCTIONS = {"nn.softmax_cross_entropy_with_logits": "nn.softmax_cross_entropy_with_logits_v2"}


def _safe_embedding_lookup_sparse(
    embedding_weights: Any,
    sparse_ids: Any,
    sparse_weights: Any = None,
    combiner: str = "mean",
    default_id: Any = None,
    max_norm: Any = None,
    name: str | None = None,
) -> Any:
    """As version 1's, with the partition strategy ``div``."""
    return _root().nn.safe_embedding_lookup_sparse(
        embedding_weights,
        sparse_ids,
        sparse_weights=sparse_weights,
        combiner=combiner,
        default_id=default_id,
        name=name,
        partition_strategy="div",
        max_norm=max_norm,
    )


#: Functions of namespaces that version 1's cannot stand for with other arguments.
_OWN = {"nn": {"safe_embedding_lookup_sparse": _safe_embedding_lookup_sparse}}


def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """`tf.where_v2`: the shapes are broadcast."""
    return _root().where_v2(condition, x, y, name=name)


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    maximum_iterations: Any = None,
    name: str | None = None,
) -> Any:
    """As version 1's, with the structure of `loop_vars` also where it holds one value."""
    return _root().while_loop(
        cond,
        body,
        loop_vars,
        shape_invariants=shape_invariants,
        parallel_iterations=parallel_iterations,
        back_prop=back_prop,
        swap_memory=swap_memory,
        maximum_iterations=maximum_iterations,
        name=name,
        return_same_structure=True,
    )


class name_scope(defaults.name_scope):  # noqa: N801 - TensorFlow's name
    """A name scope on the default graph, which must have a name."""

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise ValueError("name for name_scope must be a string.")
        super().__init__(name)


def _root() -> Any:
    # The package imports this module while it is itself being imported.
    return sys.modules["millrace"]


def _signature(text: str) -> inspect.Signature:
    parameters = []
    for part in text.strip("()").split(", "):
        name, _, default = part.partition("=")
        value: Any = inspect.Parameter.empty
        if default:
            value = ast.literal_eval(default)
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters.append(inspect.Parameter(name, kind, default=value))
    return inspect.Signature(parameters)


@functools.cache
def _moved(name: str) -> Callable[..., Any]:
    """Version 1's function, called as version 2's."""
    function: Any = _root()
    for part in _FUNCTIONS.get(name, name).split("."):
        function = getattr(function, part)
    signature = _signature(_MOVED[name])
    renamed = _RENAMED.get(name, {})

    def call(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        return function(**{renamed.get(key, key): value for key, value in given.items()})

    call.__name__ = name.rpartition(".")[2]
    call.__doc__ = function.__doc__
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


class _Namespace:
    """A namespace of version 1, without what differs in version 2."""

    def __init__(self, name: str, without: frozenset[str]) -> None:
        self._name = name
        self._without = without

    def __getattr__(self, name: str) -> Any:
        if name in _OWN.get(self._name, ()):
            return _OWN[self._name][name]
        if f"{self._name}.{name}" in _MOVED:
            return _moved(f"{self._name}.{name}")
        if name in _MOVED and self._name == "math":
            return _moved(name)
        if name in self._without:
            raise _missing(f"{self._name}.{name}")
        return getattr(getattr(_root(), self._name), name)


def _missing(name: str) -> AttributeError:
    return AttributeError(
        f"module 'millrace.compat.v2' has no attribute {name!r}: Millrace offers TensorFlow 1's "
        "interface, and of 2's only what means the same"
    )


@functools.cache
def _namespace(name: str) -> Any:
    return _Namespace(name, _NAMESPACES[name])


def __getattr__(name: str) -> Any:
    if name in _SAME:
        return getattr(_root(), name)
    if name in _NAMESPACES:
        return _namespace(name)
    if name in ("initializers", "losses", "metrics", "optimizers"):
        return getattr(_root().keras, name)
    if name in _MOVED and "." not in name:
        return _moved(name)
    raise _missing(name)


def __dir__() -> list[str]:
    moved = {name for name in _MOVED if "." not in name}
    return sorted(_SAME | set(_NAMESPACES) | moved | {"name_scope", "where", "while_loop"})
