"""`tf.compat.v2`: the few names that programs written for TensorFlow 1 take from there.

A name is here only if it means in TensorFlow 2 what it means in 1; `nn` has functions whose
arguments differ.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

#: Same meaning in both versions.
_SAME = frozenset(
    "DType Graph IndexedSlices Module Operation SparseTensor Tensor TensorShape TensorSpec "
    "Variable VariableAggregation VariableSynchronization as_dtype bfloat16 bool cast "
    "complex128 complex64 "
    "compat concat constant control_dependencies convert_to_tensor device dtypes errors float16 "
    "float32 float64 group identity int16 int32 int64 int8 matmul nest ones reshape reduce_mean "
    "reduce_sum shape stack string uint16 uint32 uint64 uint8 zeros".split()
)


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


def _root() -> Any:
    # The package imports this module while it is itself being imported.
    return sys.modules["millrace"]


def __getattr__(name: str) -> Any:
    if name in _SAME:
        return getattr(_root(), name)
    raise AttributeError(
        f"module 'millrace.compat.v2' has no attribute {name!r}: Millrace offers TensorFlow 1's "
        "interface, and of 2's only what means the same"
    )


def __dir__() -> list[str]:
    return sorted(_SAME | {"nn"})
