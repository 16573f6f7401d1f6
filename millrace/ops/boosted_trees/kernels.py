"""The op types of tree ensembles.

Those that a saved or serving graph holds are TensorFlow's. Training has two of its own,
`RouteThroughTrees` and `GrowTreeLayer`: each is one event at the ensemble, wherever that is, so
that no worker sees half a change and any worker's batch may complete a layer.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from millrace.core import errors
from millrace.core.tensor_shape import TensorShape, scalar
from millrace.graph.define import op
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, none, scalars
from millrace.ops.boosted_trees.ensemble import Ensemble, GrowthRules, gather_statistics
from millrace.ops.data_flow import shared_state

_HANDLE = "tree_ensemble_handle: resource"
_HOST: dict[str, Any] = {"gradient": NO_GRADIENT, "host": True, "stateful": True}


def _find(ctx: Any, handle: Any) -> Ensemble:
    """The ensemble behind a handle.

    Raises:
      FailedPreconditionError: It was not initialized.
    """
    ensemble = shared_state.find(Ensemble, ctx, handle)
    if ensemble.message is None:
        raise errors.FailedPreconditionError(None, None, "Tree ensemble not initialized.")
    return ensemble


@op(
    "BoostedTreesEnsembleResourceHandleOp() -> resource: resource "
    'where container: string = ""; shared_name: string = ""',
    shape=lambda c: scalar(),
    **_HOST,
)
def BoostedTreesEnsembleResourceHandleOp(*, ctx: Any, node: Any) -> Any:
    """The handle of an ensemble, which is empty at first."""

    def make_handle() -> Any:
        handle = shared_state.name_of(ctx, node, use_node_name=True)
        shared_state.make(Ensemble, ctx, handle, Ensemble)
        return shared_state.give_out(handle, node)

    return shared_state.once(ctx, node, make_handle)


def _load(tree_ensemble_handle: Any, stamp_token: Any, serialized: Any, *, ctx: Any) -> None:
    ensemble = shared_state.find(Ensemble, ctx, tree_ensemble_handle)
    with ensemble.lock:
        ensemble.load(int(stamp_token), serialized.item())


_LOADED = f"({_HANDLE}, stamp_token: int64, tree_ensemble_serialized: string)"
BoostedTreesCreateEnsemble = op(f"BoostedTreesCreateEnsemble{_LOADED}", shape=none, **_HOST)(_load)
BoostedTreesDeserializeEnsemble = op(
    f"BoostedTreesDeserializeEnsemble{_LOADED}", shape=none, **_HOST
)(_load)


@op(
    f"IsBoostedTreesEnsembleInitialized({_HANDLE}) -> is_initialized: bool",
    shape=scalars,
    **_HOST,
)
def IsBoostedTreesEnsembleInitialized(tree_ensemble_handle: Any, *, ctx: Any) -> Any:
    """Whether the ensemble was created or restored."""
    return np.bool_(shared_state.find(Ensemble, ctx, tree_ensemble_handle).message is not None)


@op(
    f"BoostedTreesSerializeEnsemble({_HANDLE}) -> "
    "(stamp_token: int64, tree_ensemble_serialized: string)",
    shape=scalars,
    **_HOST,
)
def BoostedTreesSerializeEnsemble(tree_ensemble_handle: Any, *, ctx: Any) -> Any:
    """The ensemble as a message."""
    ensemble = _find(ctx, tree_ensemble_handle)
    with ensemble.lock:
        content = ensemble.message.SerializeToString(deterministic=True)
        return np.int64(ensemble.stamp), np.array(content, object)


@op(
    f"BoostedTreesGetEnsembleStates({_HANDLE}) -> (stamp_token: int64, num_trees: int32, "
    "num_finalized_trees: int32, num_attempted_layers: int32, last_layer_nodes_range: int32)",
    shape=lambda c: [scalar()] * 4 + [TensorShape([2])],
    **_HOST,
)
def BoostedTreesGetEnsembleStates(tree_ensemble_handle: Any, *, ctx: Any) -> Any:
    """How far the ensemble has grown."""
    ensemble = _find(ctx, tree_ensemble_handle)
    with ensemble.lock:
        stamp, trees, finished, layers, nodes = ensemble.states()
    counts = np.int32(trees), np.int32(finished), np.int32(layers)
    return np.int64(stamp), *counts, np.array(nodes, np.int32)


def _logits_shape(c: ShapeContext) -> TensorShape:
    return TensorShape([None, c.op.attrs["logits_dimension"]])


@op(
    f"BoostedTreesPredict({_HANDLE}, bucketized_features: num_bucketized_features*int32) -> "
    "logits: float32 where num_bucketized_features: int >= 1; logits_dimension: int",
    shape=_logits_shape,
    **_HOST,
)
def BoostedTreesPredict(tree_ensemble_handle: Any, bucketized_features: Any, *, ctx: Any) -> Any:
    """The logits of examples."""
    ensemble = _find(ctx, tree_ensemble_handle)
    with ensemble.lock:
        return ensemble.route(bucketized_features)[0]


@op(
    f"RouteThroughTrees({_HANDLE}, bucketized_features: N*int32) -> "
    "(stamp_token: int64, logits: float32, node_ids: int32) where N: int >= 1",
    shape=lambda c: [scalar(), TensorShape([None, 1]), TensorShape([None])],
    **_HOST,
)
def RouteThroughTrees(tree_ensemble_handle: Any, bucketized_features: Any, *, ctx: Any) -> Any:
    """The logits of examples and their nodes in the tree that grows, at one moment."""
    ensemble = _find(ctx, tree_ensemble_handle)
    with ensemble.lock:
        return np.int64(ensemble.stamp), *ensemble.route(bucketized_features)


@op(
    f"GrowTreeLayer({_HANDLE}, stamp_token: int64, centering: bool, batches_per_layer: int64, "
    "node_ids: int32, gradients: float32, hessians: float32, bucketized_features: N*int32) -> "
    "continue_centering: bool where N: int >= 1; num_buckets: list(int); max_depth: int; "
    "learning_rate: float; l1: float; l2: float; tree_complexity: float; "
    "min_node_weight: float; pruning_mode: int",
    shape=scalars,
    **_HOST,
)
def GrowTreeLayer(
    tree_ensemble_handle: Any,
    stamp_token: Any,
    centering: Any,
    batches_per_layer: Any,
    node_ids: Any,
    gradients: Any,
    hessians: Any,
    bucketized_features: Any,
    *,
    num_buckets: Any,
    ctx: Any,
    node: Any,
) -> Any:
    """Hands a batch to the ensemble, which centers its bias or grows when it has enough."""
    names = [field.name for field in dataclasses.fields(GrowthRules)]
    rules = GrowthRules(**{name: node.attrs[name] for name in names})
    ensemble = _find(ctx, tree_ensemble_handle)
    stamp, batches = int(stamp_token), int(batches_per_layer)
    with ensemble.lock:
        if centering:
            means = np.stack([gradients.mean(), hessians.mean()])
            return np.bool_(ensemble.center(stamp, means, batches, rules))
        if stamp == ensemble.stamp:
            statistics = gather_statistics(
                node_ids, gradients, hessians, bucketized_features,
                2**rules.max_depth, max(num_buckets),
            )  # fmt: skip
            ensemble.grow(stamp, statistics, num_buckets, batches, rules)
    return np.bool_(False)
