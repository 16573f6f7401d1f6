"""`tf.compat.v2`: what means the same in TensorFlow 1 and 2, and functions whose arguments moved.

A name is here only if it is the same object in TensorFlow 1.15's two namespaces, or if version
2's arguments are some of version 1's in another order (`_MOVED`). Everything else is refused.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

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
    "dtypes": frozenset(),
    "errors": frozenset(),
    "linalg": frozenset("l2_normalize norm".split()),
    "math": frozenset("bincount confusion_matrix in_top_k scalar_mul".split()),
    "nest": frozenset(),
    "quantization": frozenset(),
    "ragged": frozenset(),
    "sets": frozenset(),
    "signal": frozenset(),
    "strings": frozenset("length reduce_join split substr to_hash_bucket to_number".split()),
}
_REDUCTION = "(input_tensor, axis=None, keepdims=False, name=None)"
#: Version 2's arguments; all are version 1's, too.
_MOVED = {
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
    "norm": "(tensor, ord='euclidean', axis=None, keepdims=None, name=None)",
    "ones_like": "(input, dtype=None, name=None)",
    "pad": "(tensor, paddings, mode='CONSTANT', constant_values=0, name=None)",
    "shape": "(input, out_type='int32', name=None)",
    "size": "(input, out_type='int32', name=None)",
    "squeeze": "(input, axis=None, name=None)",
    "transpose": "(a, perm=None, conjugate=False, name='transpose')",
    "zeros_like": "(input, dtype=None, name=None)",
} | {
    f"reduce_{kind}": _REDUCTION
    for kind in ("all", "any", "logsumexp", "max", "mean", "min", "prod", "sum")
}
#: Arguments that have another name in version 1.
_RENAMED = {"zeros_like": {"input": "tensor"}, "ones_like": {"input": "tensor"}}


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


nn = SimpleNamespace(safe_embedding_lookup_sparse=_safe_embedding_lookup_sparse)


def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """`tf.where_v2`: the shapes are broadcast."""
    return _root().where_v2(condition, x, y, name=name)


def _root() -> Any:
    # The package imports this module while it is itself being imported.
    return sys.modules["millrace"]


def _signature(text: str) -> inspect.Signature:
    parameters = []
    for part in text.strip("()").split(", "):
        name, _, default = part.partition("=")
        value: Any = inspect.Parameter.empty
        if default:
            value = {"None": None, "False": False, "0": 0}.get(default, default.strip("'"))
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters.append(inspect.Parameter(name, kind, default=value))
    return inspect.Signature(parameters)


@functools.cache
def _moved(name: str) -> Callable[..., Any]:
    """Version 1's function, called as version 2's."""
    function = getattr(_root(), name)
    signature = _signature(_MOVED[name])
    renamed = _RENAMED.get(name, {})

    def call(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        return function(**{renamed.get(key, key): value for key, value in given.items()})

    call.__name__ = name
    call.__doc__ = function.__doc__
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


class _Namespace:
    """A namespace of version 1, without what differs in version 2."""

    def __init__(self, name: str, without: frozenset[str]) -> None:
        self._name = name
        self._without = without

    def __getattr__(self, name: str) -> Any:
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
    if name in _MOVED:
        return _moved(name)
    raise _missing(name)


def __dir__() -> list[str]:
    return sorted(_SAME | set(_NAMESPACES) | set(_MOVED) | {"nn", "where"})
