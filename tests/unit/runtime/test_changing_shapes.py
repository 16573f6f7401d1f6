"""Shapes that change with each step: how often models compile, and what has no NumPy kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.graph import registry
from millrace.runtime import tiers, traced_kernel

#: So many programs may a model have that meets a new shape in each of 200 steps.
_MOST_PROGRAMS = 6


def _bags() -> Callable[[int], dict[Any, Any]]:
    ids, rows = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.int64, [None])
    table = tf.get_variable("table", [50, 8])
    bag = tf.unsorted_segment_sum(tf.gather(table, ids), rows, 4)
    _train(tf.matmul(tf.nn.relu(bag), tf.get_variable("w", [8, 1])))
    return lambda n: {ids: np.arange(n) % 50, rows: np.arange(n) % 4}


def _sentences() -> Callable[[int], dict[Any, Any]]:
    words = tf.placeholder(tf.int32, [None, None])
    rows = tf.nn.embedding_lookup(tf.get_variable("words", [50, 8]), words)
    filters = tf.get_variable("filters", [3, 8, 1, 4])
    found = tf.nn.conv2d(rows[..., None], filters, [1, 1, 1, 1], "VALID")
    _train(tf.reduce_max(tf.nn.relu(found), [1, 2]))
    return lambda n: {words: np.arange(2 * (n + 2)).reshape(2, -1) % 50}


def _attention() -> Callable[[int], dict[Any, Any]]:
    x = tf.placeholder(tf.float32, [None, 8])
    q, k = (tf.matmul(x, tf.get_variable(name, [8, 8])) for name in "qk")
    _train(tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True)), x))
    return lambda n: {x: np.linspace(-1, 1, n * 8, dtype=np.float32).reshape(n, 8)}


def _train(values: Any) -> None:
    loss = tf.reduce_mean(tf.square(values - 1.0))
    tf.add_to_collection("step", tf.train.AdagradOptimizer(0.1).minimize(loss))


@pytest.mark.parametrize("model", [_bags, _sentences, _attention])
def test_two_hundred_shapes_compile_a_few_programs_and_no_step_waits(
    model: Callable[[], Callable[[int], dict[Any, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLRACE_COMPILE", "background")
    feed = model()
    (step,) = tf.get_collection("step")
    compiles, waits = tiers.COUNTS.compiles, tiers.COUNTS.waits
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for n in range(1, 201):
            sess.run(step, feed(n))
    assert tiers.COMPILER.wait(60)
    assert tiers.COUNTS.compiles - compiles <= _MOST_PROGRAMS
    assert tiers.COUNTS.waits == waits


#: Ops that are traced on tier 0 for each new shape. A new op should not be among them, unless
#: nobody will call it with shapes that change.
_TRACED = """
AdjustContrast AdjustContrastv2 AdjustHue AdjustSaturation BatchNormWithGlobalNormalization
BatchNormWithGlobalNormalizationGrad BesselI0 BesselI0e BesselI1 BesselI1e Betainc Bincount
Cholesky CholeskyGrad CropAndResize CropAndResizeGradBoxes CropAndResizeGradImage
CumulativeLogsumexp Dawsn DebugGradientIdentity DeepCopy DenseBincount DepthwiseConv2dNative
DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput Digamma Dilation2D
Dilation2DBackpropFilter Dilation2DBackpropInput Empty Erf Erfc Erfinv Expint ExtractGlimpse
ExtractGlimpseV2 FFT FFT2D FFT3D FakeQuantWithMinMaxArgs FakeQuantWithMinMaxArgsGradient
FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsGradient FakeQuantWithMinMaxVarsPerChannel
FakeQuantWithMinMaxVarsPerChannelGradient FresnelCos FresnelSin GuaranteeConst HSVToRGB
HistogramFixedWidth IFFT IFFT2D IFFT3D IRFFT IRFFT2D IRFFT3D Igamma IgammaGradA Igammac InTopK
InTopKV2 LRN LRNGrad Lgamma LogMatrixDeterminant Lu MatrixDeterminant MatrixExponential
MatrixInverse MatrixSolve MatrixSolveLs MatrixSquareRoot MatrixTriangularSolve MaxPool3DGradGrad
MaxPoolGradGrad MaxPoolGradGradV2 MaxPoolGradGradWithArgmax MaxPoolGradWithArgmax
MaxPoolWithArgmax Ndtri ParameterizedTruncatedNormal PlaceholderWithDefault Polygamma
Qr RFFT RFFT2D RFFT3D RGBToHSV RandomGamma RandomGammaGrad RandomPoisson RandomPoissonV2
RefIdentity ResizeArea ResizeBicubic
ResizeBicubicGrad ResizeBilinear ResizeBilinearGrad ResizeNearestNeighbor
ResizeNearestNeighborGrad SegmentMaxV2 SegmentMinV2 SegmentProdV2 SegmentSumV2 SelfAdjointEigV2
Spence StatelessMultinomial StatelessParameterizedTruncatedNormal
StatelessRandomBinomial StatelessRandomGammaV2 StatelessRandomGammaV3 StatelessRandomGetKeyCounter
StatelessRandomNormal StatelessRandomNormalV2 StatelessRandomPoisson StatelessRandomUniform
StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2 StatelessRandomUniformInt
StatelessRandomUniformIntV2 StatelessRandomUniformV2 StatelessTruncatedNormal
StatelessTruncatedNormalV2 Svd SymbolicGradient TopK TopKV2 UnsortedSegmentMax
UnsortedSegmentMin UnsortedSegmentProd VectorJacobianProduct Zeta _RoutedStitch _SumRouted
"""


def test_every_other_pure_op_runs_on_numpy_itself() -> None:
    traced = {
        definition.name
        for definition in registry.all_definitions()
        if definition.is_pure
        and not definition.runs_on_numpy
        and definition.name not in traced_kernel._AS_THEY_ARE
        and "variable" not in definition.specials
        and not definition.name.startswith("Test")
    }
    assert traced == set(_TRACED.split())
