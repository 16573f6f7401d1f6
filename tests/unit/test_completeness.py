"""Every registered op type is whole, and its signature is TensorFlow's."""

from __future__ import annotations

import functools
import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import millrace  # registers all op types
from millrace.graph import registry
from millrace.graph.registry import GradientMarker, OpDefinition

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "parity"))

from parity_kit.op_table import row

#: Op types that TensorFlow does not have. Graphs that contain one run on Millrace only.
OWN = {
    "_AddToElement": "adds to one gradient of a TensorArray; only gradients of loops have it",
    "_AddToElements": "adds to several gradients of a TensorArray, as _AddToElement",
    "_BagOfRows": "sums of rows that _RouteRows asked for; only passes make it",
    "_EmptyGradientArray": "gradients of a TensorArray, none yet; only gradients of loops have it",
    "_FewUnique": "Unique of few lengths; only passes make it",
    "_FirstColumn": "a slice of a sparse tensor's indices on the host; only passes make it",
    "_GradientOfElement": "a gradient of a TensorArray's element; only gradients of loops have it",
    "_GradientsOfElements": "several gradients of a TensorArray's elements, as _GradientOfElement",
    "_JoinedElements": "elements of gradients end to end; only gradients of loops have it",
    "_LifeSign": "tells another task whether a branch was taken; only passes make it",
    "_LoopReceive": "takes what another task's part of a loop sends; only passes make it",
    "_LoopSend": "sends a value to another task's part of a loop; only passes make it",
    "_MaskedPartition": "DynamicPartition with padding; only passes make it",
    "_MaskedResourceTake": "ResourceGather of padded indices; only passes make it",
    "_MaskedStitch": "DynamicStitch of padded rows; only passes make it",
    "_MaskedTake": "Gather of padded indices; only passes make it",
    "GrowTreeLayer": "one layer of boosted trees at the ensemble, in one event",
    "ParquetDataset": "behind tf.data.experimental.ParquetDataset, which TensorFlow lacks",
    "_PaddedCast": "Cast of padded indices; only passes make it",
    "_PaddedUnique": "Unique with padding; only passes make it",
    "_PiecesLikeElements": "pieces as long as an array's elements; only gradients of loops have it",
    "_ReceiveTensors": "takes what another task sends at one point of a step; only passes make it",
    "_RouteIds": "_RouteRows of ids as embedding_lookup spreads them; only passes make it",
    "_RouteRows": "DynamicPartition for other tasks, with padding; only passes make it",
    "RouteThroughTrees": "logits, nodes and stamp of boosted trees at one moment",
    "_RoutedStitch": "DynamicStitch of what _RouteRows sorted; only passes make it",
    "_SaveDelta": "writes the rows that changed since another checkpoint; SaveV2 writes all",
    "_SendTensors": "sends another task all that it needs at one point; only passes make it",
    "_SparseSegmentGradOnHost": "SparseSegmentSumGrad and its kin; only passes make it",
    "_SumBags": "_SumRouted of gradients that are alike; only passes make it",
    "_SumRouted": "sums of gradients for what _RouteRows sorted; only passes make it",
    "SliceGrad": "the gradient of Slice; TensorFlow builds a Pad with amounts that XLA must know",
    "VectorJacobianProduct": "the generic gradient op behind JAX_GRADIENT",
}
#: Where a signature differs from TensorFlow 2.21's on purpose.
DIFFERENT = {
    "_Arg": "its index has a default: it is known from the place among the arguments",
}

DEFINITIONS = [d for d in registry.all_definitions() if not d.name.startswith("Test")]


@functools.cache
def tensorflows() -> dict[str, Any]:
    stored = Path(__file__).resolve().parent / "tf_op_signatures.json.gz"
    content = gzip.decompress(stored.read_bytes())
    return json.loads(content)["ops"]  # type: ignore[no-any-return]


def ours(definition: OpDefinition) -> dict[str, Any]:
    # Through JSON: the stored table has lists where Python has tuples.
    return json.loads(json.dumps(row(definition.op_def())))  # type: ignore[no-any-return]


def test_there_are_op_types() -> None:
    assert millrace.Graph is not None
    assert len(DEFINITIONS) > 500


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda d: d.name)
def test_an_op_type_has_shape_rule_kernel_and_gradient(definition: OpDefinition) -> None:
    assert callable(definition.shape_rule)
    assert callable(definition.kernel)
    gradient = registry.gradient_rule(definition.name)
    assert gradient is not registry.UNSTATED
    assert callable(gradient) or isinstance(gradient, GradientMarker)


@pytest.mark.parametrize(
    "definition",
    [d for d in DEFINITIONS if d.name not in OWN and d.name not in DIFFERENT],
    ids=lambda d: d.name,
)
def test_a_signature_is_tensorflows(definition: OpDefinition) -> None:
    assert definition.name in tensorflows(), "not an op type of TensorFlow: list it in OWN, and why"
    found, wanted = ours(definition), tensorflows()[definition.name]
    assert found["inputs"] == wanted["inputs"]
    assert found["outputs"] == wanted["outputs"]
    assert found["attrs"] == wanted["attrs"]


def test_what_tensorflow_calls_stateful_is_never_folded() -> None:
    """Two runs of a stateful op may differ: it must not be computed ahead of the step."""
    stateful = {name for name, signature in tensorflows().items() if signature["stateful"]}
    folded = {d.name for d in DEFINITIONS if d.is_foldable}
    assert not stateful & folded, "pass stateful=True"


@pytest.mark.parametrize("name", sorted(OWN))
def test_what_is_listed_as_our_own_exists_and_is_ours(name: str) -> None:
    assert registry.find(name) is not None
    assert name not in tensorflows()


@pytest.mark.parametrize("name", sorted(DIFFERENT))
def test_what_is_listed_as_different_differs(name: str) -> None:
    assert ours(registry.lookup(name)) != tensorflows()[name], "equal by now: remove it"
