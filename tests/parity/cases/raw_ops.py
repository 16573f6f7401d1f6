"""Op types that no function of today builds, but that graphs of older clients contain."""

import numpy as np
from parity_kit import (
    array,
    bools,
    case,
    cases,
    complexes,
    floats,
    ints,
    positive,
    scenario,
    strings,
)

X = {"x": floats(3, 4)}
PURE = {
    "OnesLike": ({"x": floats(2, 3)}, {}),
    "ZerosLike": ({"x": floats(2, 3)}, {}),
    "Snapshot": ({"input": floats(2, 3)}, {}),
    "DeepCopy": ({"x": floats(2, 3)}, {}),
    "PopulationCount": ({"x": ints(4, low=0, high=1000)}, {}),
    "InvertPermutation": ({"x": array([2, 0, 1])}, {}),
    "ApproximateEqual": ({"x": array([1.0, 2.0]), "y": array([1.0, 2.1])}, {"tolerance": 0.05}),
    "Bucketize": ({"input": floats(2, 3)}, {"boundaries": [-1.0, 0.0, 1.0]}),
    "DataFormatDimMap": ({"x": array([0, 3, -2])}, {"src_format": "NHWC", "dst_format": "NCHW"}),
    "DataFormatVecPermute": (
        {"x": array([1, 2, 3, 4])},
        {"src_format": "NHWC", "dst_format": "NCHW"},
    ),
    "NthElement": ({"input": floats(2, 5), "n": array(1)}, {"reverse": True}),
    "InTopK": ({"predictions": floats(2, 5), "targets": array([1, 4])}, {"k": 2}),
    "UniqueV2": ({"x": array([[1, 2], [1, 2], [3, 4]]), "axis": array([0])}, {}),
    "UniqueWithCountsV2": ({"x": array([[1, 2], [1, 2], [3, 4]]), "axis": array([0])}, {}),
    "RegexReplace": (
        {"input": strings(["a1", "b"]), "pattern": strings("[0-9]"), "rewrite": strings("#")},
        {},
    ),
    "RegexFullMatch": ({"input": strings(["a1", "b"]), "pattern": strings("[a-z]")}, {}),
    "MatrixDiagPartV2": (
        {"input": floats(3, 3), "k": array([-1, 1]), "padding_value": array(0.0)},
        {},
    ),
    "Conv3DBackpropFilterV2": (
        {
            "input": floats(1, 3, 3, 3, 1),
            "filter_sizes": array([2, 2, 2, 1, 1]),
            "out_backprop": floats(1, 2, 2, 2, 1),
        },
        {"strides": [1, 1, 1, 1, 1], "padding": "VALID"},
    ),
    "DepthwiseConv2dNativeBackpropInput": (
        {
            "input_sizes": array([1, 4, 4, 2]),
            "filter": floats(2, 2, 2, 1),
            "out_backprop": floats(1, 4, 4, 2),
        },
        {"strides": [1, 1, 1, 1], "padding": "SAME"},
    ),
    "DepthwiseConv2dNativeBackpropFilter": (
        {
            "input": floats(1, 4, 4, 2),
            "filter_sizes": array([2, 2, 2, 1]),
            "out_backprop": floats(1, 4, 4, 2),
        },
        {"strides": [1, 1, 1, 1], "padding": "SAME"},
    ),
    "ResizeBilinearGrad": ({"grads": floats(1, 4, 4, 1), "original_image": floats(1, 2, 3, 1)}, {}),
    "ResizeBicubicGrad": ({"grads": floats(1, 4, 4, 1), "original_image": floats(1, 2, 3, 1)}, {}),
    "ResizeNearestNeighborGrad": ({"grads": floats(1, 4, 4, 1), "size": array([2, 3])}, {}),
    "LRNGrad": (
        {
            "input_grads": floats(1, 1, 2, 5),
            "input_image": floats(1, 1, 2, 5),
            "output_image": floats(1, 1, 2, 5),
        },
        {"depth_radius": 2},
    ),
    "FusedBatchNormGrad": (
        {
            "y_backprop": floats(1, 2, 2, 2),
            "x": floats(1, 2, 2, 2),
            "scale": floats(2),
            "reserve_space_1": floats(2),
            "reserve_space_2": positive(2),
        },
        {"is_training": False},
    ),
    "StridedSliceGrad": (
        {
            "shape": array([3, 4]),
            "begin": array([0, 1]),
            "end": array([3, 4]),
            "strides": array([1, 2]),
            "dy": floats(3, 2),
        },
        {},
    ),
    "MirrorPadGrad": (
        {"input": floats(5, 4), "paddings": array([[1, 1], [1, 0]])},
        {"mode": "REFLECT"},
    ),
    "SparseSegmentSumWithNumSegments": (
        {
            "data": floats(4, 2),
            "indices": array([0, 3]),
            "segment_ids": array([0, 2]),
            "num_segments": array(4),
        },
        {},
    ),
    "SparseSegmentMeanGrad": (
        {
            "grad": floats(2, 2),
            "indices": array([0, 3, 3]),
            "segment_ids": array([0, 1, 1]),
            "output_dim0": array(5),
        },
        {},
    ),
    "SparseSegmentSqrtNGrad": (
        {
            "grad": floats(2, 2),
            "indices": array([0, 3, 3]),
            "segment_ids": array([0, 1, 1]),
            "output_dim0": array(5),
        },
        {},
    ),
    "ScatterNdNonAliasingAdd": (
        {"input": floats(4), "indices": array([[1], [1]]), "updates": floats(2)},
        {},
    ),
    "Inv": ({"x": positive(3)}, {}),
    "EuclideanNorm": ({"input": floats(2, 3), "axis": array([1])}, {}),
    "Digamma": ({"x": positive(3)}, {}),
    "NextAfter": ({"x1": array([1.0]), "x2": array([2.0])}, {}),
    "HistogramFixedWidth": (
        {"values": floats(6), "value_range": array([-1.0, 1.0]), "nbins": array(4)},
        {},
    ),
    "Bincount": (
        {"arr": array([1, 1, 0]), "size": array(4), "weights": array([0.5, 1.0, 2.0])},
        {},
    ),
    "DenseBincount": (
        {"input": array([1, 1, 0]), "size": array(4), "weights": array([0.5, 1.0, 2.0])},
        {},
    ),
    "MatrixSquareRoot": ({"input": array([[4.0, 1.0], [1.0, 3.0]])}, {}),
    "BroadcastArgs": ({"s0": array([2, 1]), "s1": array([1, 3])}, {}),
    "LowerBound": ({"sorted_inputs": array([[1, 3, 5]]), "values": array([[3, 6]])}, {}),
    "UpperBound": ({"sorted_inputs": array([[1, 3, 5]]), "values": array([[3, 6]])}, {}),
}


@cases(
    [(op, inputs, op, attributes) for op, (inputs, attributes) in PURE.items()],
    rtol=1e-4,
    atol=1e-5,
)
def pure(tf, op, attributes, **inputs):
    return list(_outputs(getattr(tf.raw_ops, op)(**inputs, **attributes)))


def _outputs(result):
    return result if isinstance(result, (list, tuple)) else [result]


BINARY = (
    "Add",
    "AddV2",
    "Sub",
    "Mul",
    "Div",
    "RealDiv",
    "DivNoNan",
    "Maximum",
    "Minimum",
    "Pow",
    "SquaredDifference",
    "Atan2",
    "Mod",
    "FloorDiv",
    "FloorMod",
    "TruncateDiv",
    "Xdivy",
    "Xlogy",
)


@cases(
    [
        (f"{op}_broadcast", {"x": positive(2, 3), "y": positive(3)}, op)
        for op in BINARY
        if op not in ("TruncateDiv", "Mod")
    ]
)
def binary(tf, op, x, y):
    return getattr(tf.raw_ops, op)(x=x, y=y)


@cases(
    [
        (f"{op}_ints", {"x": ints(4, low=-9, high=9), "y": ints(4, low=1, high=4)}, op)
        for op in (
            "Add",
            "Sub",
            "Mul",
            "Div",
            "Mod",
            "TruncateDiv",
            "FloorDiv",
            "FloorMod",
            "TruncateMod",
            "BitwiseAnd",
        )
    ]
)
def binary_ints(tf, op, x, y):
    return getattr(tf.raw_ops, op)(x=x, y=y)


@case(inputs={"x": floats(2, 3), "y": floats(2, 1)}, grad=True)
def concat_v1(tf, x, y):
    return tf.raw_ops.Concat(concat_dim=1, values=[x, y])


@case(inputs={"x": floats(2, 3), "y": floats(2, 3)}, grad=True)
def pack_and_unpack(tf, x, y):
    packed = tf.raw_ops.Pack(values=[x, y], axis=1)
    return [packed, *tf.raw_ops.Unpack(value=packed, num=3, axis=2)]


@case(inputs={"x": floats(4, 2), "i": array([1, 3, 1])}, grad=["x"])
def gather_v1(tf, x, i):
    return tf.raw_ops.Gather(params=x, indices=i)


@case(inputs={"x": floats(2, 2, 3), "y": floats(2, 3, 2)}, grad=True)
def batch_matmul_v1(tf, x, y):
    return [
        tf.raw_ops.BatchMatMul(x=x, y=y),
        tf.raw_ops.BatchMatMul(x=y, y=x, adj_x=True, adj_y=True),
    ]


@case(inputs={"x": floats(2, 3), "d": bools(2)})
def reverse_v1(tf, x, d):
    return tf.raw_ops.Reverse(tensor=x, dims=d)


@case(inputs={"c": bools(2, 3), "x": floats(2, 3), "y": floats(2, 3)}, grad=True)
def select_v1(tf, c, x, y):
    return [tf.raw_ops.Select(condition=c, x=x, y=y), tf.raw_ops.SelectV2(condition=c, t=x, e=y)]


@case(inputs={"x": floats(3)}, grad=True)
def matrix_diag_v1(tf, x):
    square = tf.raw_ops.MatrixDiag(diagonal=x)
    return [
        square,
        tf.raw_ops.MatrixDiagPart(input=square * 2.0),
        tf.raw_ops.MatrixSetDiag(input=square, diagonal=x * x),
    ]


@case(inputs={"x": floats(1, 4, 4, 1)}, grad=True)
def space_to_batch_v1(tf, x):
    y = tf.raw_ops.SpaceToBatch(input=x, paddings=[[0, 0], [0, 0]], block_size=2)
    return [y, tf.raw_ops.BatchToSpace(input=y, crops=[[0, 0], [0, 0]], block_size=2)]


@case(inputs={"x": floats(1, 4, 4, 1)}, grad=True)
def max_pool_v2(tf, x):
    return tf.raw_ops.MaxPoolV2(input=x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")


@case(inputs={"x": floats(1, 4, 4, 1), "dy": floats(1, 2, 2, 1)})
def max_pool_grad_v2(tf, x, dy):
    window = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
    y = tf.raw_ops.MaxPoolV2(input=x, **window)
    return tf.raw_ops.MaxPoolGradV2(orig_input=x, orig_output=y, grad=dy, **window)


@case(inputs={"x": floats(3, 4), "b": floats(4)}, grad=True)
def bias_add_v1(tf, x, b):
    return tf.raw_ops.BiasAddV1(value=x, bias=b)


@case(inputs={"x": floats(2), "y": floats(2)}, grad=True)
def accumulate_n_v2(tf, x, y):
    return tf.raw_ops.AccumulateNV2(inputs=[x, y], shape=[2])


@case(inputs={"x": floats(2, 3)}, grad=True)
def shape_and_pass_through_ops(tf, x):
    raw = tf.raw_ops
    return [
        raw.PlaceholderWithDefault(input=x, shape=[2, 3]),
        raw.IdentityN(input=[x, x * 2.0])[1],
        raw.EnsureShape(input=x, shape=[2, 3]),
    ]


@case(inputs={"x": floats(2)}, raises=("LookupError",))
def prevent_gradient(tf, x):
    return tf.gradients(tf.raw_ops.PreventGradient(input=x, message="no further"), x)


@case(
    inputs={
        "b": array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 2, 1, 3]]),
        "s": array([0.9, 0.75, 0.6]),
    }
)
def non_max_suppression_versions(tf, b, s):
    raw = tf.raw_ops
    return [
        raw.NonMaxSuppression(boxes=b, scores=s, max_output_size=3, iou_threshold=0.5),
        raw.NonMaxSuppressionV2(boxes=b, scores=s, max_output_size=3, iou_threshold=0.5),
        *raw.NonMaxSuppressionV4(
            boxes=b,
            scores=s,
            max_output_size=4,
            iou_threshold=0.5,
            score_threshold=0.0,
            pad_to_max_output_size=True,
        ),
    ]


@case(inputs={"x": complexes(2, 3)})
def self_adjoint_eig_of_real_part(tf, x):
    real = tf.real(x)
    return tf.raw_ops.SelfAdjointEigV2(
        input=tf.matmul(real, real, transpose_b=True), compute_v=False
    ).e


@case(inputs={"a": positive(3), "x": positive(3)}, rtol=1e-3, atol=1e-5)
def igamma_grad_a(tf, a, x):
    return tf.raw_ops.IgammaGradA(a=a, x=x)


# --- state behind reference handles


@scenario
def variable_v1(run, tf):
    raw = tf.raw_ops
    v = raw.Variable(shape=[2], dtype=tf.float32, shared_name="old")
    run.fails("FailedPreconditionError", v + 0.0)
    run(raw.IsVariableInitialized(ref=v))
    run(raw.Assign(ref=v, value=[1.0, 2.0]))
    run(raw.AssignAdd(ref=v, value=[1.0, 1.0]))
    run([raw.RefIdentity(input=v), raw.IsVariableInitialized(ref=v)])


@scenario
def ref_switch_and_merge(run, tf):
    raw = tf.raw_ops
    v = raw.VariableV2(shape=[], dtype=tf.float32)
    p = tf.placeholder(tf.bool, [])
    off, on = raw.RefSwitch(data=v, pred=p)
    merged = raw.RefMerge(
        inputs=[raw.AssignAdd(ref=off, value=10.0), raw.AssignAdd(ref=on, value=1.0)]
    )
    run.value(raw.Assign(ref=v, value=0.0))
    for way in (True, False, True):
        run([merged.output, merged.value_index], {p: way})


@scenario
def ref_select(run, tf):
    raw = tf.raw_ops
    refs = [raw.VariableV2(shape=[], dtype=tf.float32, shared_name=n) for n in ("a", "b")]
    index = tf.placeholder(tf.int32, [])
    for i, ref in enumerate(refs):
        run.value(raw.Assign(ref=ref, value=float(i)))
    chosen = raw.RefSelect(index=index, inputs=refs)
    run.value(raw.Assign(ref=chosen, value=7.0), {index: 1})
    run(refs)


@scenario
def queue_v1(run, tf):
    raw = tf.raw_ops
    q = raw.FIFOQueue(component_types=[tf.float32], shapes=[[]], capacity=5, shared_name="q")
    run.value(raw.QueueEnqueue(handle=q, components=[1.0]))
    run.value(raw.QueueEnqueueMany(handle=q, components=[[2.0, 3.0, 4.0]]))
    run(raw.QueueSize(handle=q))
    run(raw.QueueDequeue(handle=q, component_types=[tf.float32]))
    run(raw.QueueDequeueMany(handle=q, n=2, component_types=[tf.float32]))
    run.value(raw.QueueClose(handle=q))
    run(raw.QueueDequeueUpTo(handle=q, n=5, component_types=[tf.float32]))
    run.fails("OutOfRangeError", raw.QueueDequeue(handle=q, component_types=[tf.float32]))


@scenario
def accumulator_v1(run, tf):
    raw = tf.raw_ops
    acc = raw.ConditionalAccumulator(dtype=tf.float32, shape=[2], shared_name="acc")
    step = tf.placeholder(tf.int64, [])
    apply = raw.AccumulatorApplyGradient(handle=acc, local_step=step, gradient=[2.0, 4.0])
    count = raw.AccumulatorNumAccumulated(handle=acc)
    run.value(apply, {step: 0})
    run.value(apply, {step: 0})
    run(count)
    run(raw.AccumulatorTakeGradient(handle=acc, num_required=2, dtype=tf.float32))
    run.value(apply, {step: 0})
    run(count)
    run.value(raw.AccumulatorSetGlobalStep(handle=acc, new_global_step=tf.constant(5, tf.int64)))
    run.value(apply, {step: 4})
    run.value(apply, {step: 5})
    run(count)


@scenario
def sparse_accumulator_v1(run, tf):
    raw = tf.raw_ops
    acc = raw.SparseConditionalAccumulator(dtype=tf.float32, shape=[4, 1], shared_name="acc")
    apply = raw.SparseAccumulatorApplyGradient(
        handle=acc,
        local_step=tf.constant(0, tf.int64),
        gradient_indices=tf.constant([1, 3], tf.int64),
        gradient_values=[[1.0], [2.0]],
        gradient_shape=tf.constant([4, 1], tf.int64),
        has_known_shape=True,
    )
    run.value(apply)
    run.value(apply)
    result = raw.SparseAccumulatorTakeGradient(handle=acc, num_required=1, dtype=tf.float32)
    run([result.indices, result.values, result.shape])


@scenario
def hash_table_v1(run, tf):
    raw = tf.raw_ops
    table = raw.HashTable(key_dtype=tf.string, value_dtype=tf.int64, shared_name="t")
    run.value(
        raw.InitializeTable(
            table_handle=table, keys=["a", "b"], values=tf.constant([1, 2], tf.int64)
        )
    )
    run(
        raw.LookupTableFind(
            table_handle=table, keys=["b", "c"], default_value=tf.constant(-1, tf.int64)
        )
    )
    run(raw.LookupTableSize(table_handle=table))


@scenario
def stack_v1(run, tf):
    raw = tf.raw_ops
    stack = raw.Stack(elem_type=tf.float32, stack_name="s")
    pushed = raw.StackPush(handle=stack, elem=[1.0, 2.0])
    with tf.control_dependencies([pushed]):
        run(raw.StackPop(handle=stack, elem_type=tf.float32))


@scenario
def sparse_tensors_map(run, tf):
    raw = tf.raw_ops
    add = raw.AddManySparseToTensorsMap(
        sparse_indices=tf.constant([[0, 0], [1, 2]], tf.int64),
        sparse_values=[5.0, 6.0],
        sparse_shape=tf.constant([2, 3], tf.int64),
        shared_name="m",
    )
    taken = raw.TakeManySparseFromTensorsMap(sparse_handles=add, dtype=tf.float32, shared_name="m")
    run([taken.sparse_indices, taken.sparse_values, taken.sparse_shape])


@scenario
def session_handles(run, tf):
    handle = run.session.run(tf.get_session_handle(tf.constant([1.0, 2.0])))
    holder, tensor = tf.get_session_tensor(handle.handle, tf.float32)
    doubled = tensor * 2.0
    run.note(run.session.run(doubled, {holder: handle.handle}).tolist())


@scenario
def timestamp_moves(run, tf):
    t = tf.timestamp()
    first, second = run.value(t), run.value(t)
    assert second >= first > 1.5e9
    run.note(t.dtype.name)


@scenario
def critical_section_runs_in_turn(run, tf):
    v = tf.Variable(0.0, use_resource=True)
    section = tf.CriticalSection(name="section")

    def body():
        with tf.control_dependencies([v.assign_add(1.0)]):
            return v.read_value()

    outputs = [section.execute(body) for _ in range(3)]
    run.initialize()
    run.note(sorted(run.session.run(outputs)))


@case(inputs={"x": array(np.arange(4, dtype=np.float32).reshape(2, 2))})
def raw_reductions(tf, x):
    raw = tf.raw_ops
    return [
        getattr(raw, n)(input=x, axis=[0], keep_dims=True)
        for n in ("Sum", "Mean", "Prod", "Max", "Min")
    ]
