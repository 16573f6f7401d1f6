"""`replica_device_setter` and its strategies: which op goes to which task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import millrace as tf

CLUSTER = {"ps": ["ps0:1", "ps1:1", "ps2:1"], "worker": ["w0:1", "w1:1"]}


def devices_of_variables(setter, count=4):
    with tf.device(setter):
        return [tf.Variable(1.0, name=f"v{i}").device for i in range(count)]


@pytest.mark.parametrize(
    "cluster",
    [CLUSTER, tf.train.ClusterSpec(CLUSTER), tf.train.ClusterSpec(CLUSTER).as_cluster_def()],
    ids=["dict", "ClusterSpec", "ClusterDef"],
)
def test_variables_go_to_the_ps_tasks_in_turn_and_the_rest_to_the_worker(cluster) -> None:
    with tf.device(tf.train.replica_device_setter(cluster=cluster)):
        variables = [tf.Variable(tf.zeros([2]), use_resource=i % 2 == 1) for i in range(4)]
        total = tf.add_n([v.initialized_value() for v in variables])
    assert [v.device for v in variables] == [f"/job:ps/task:{i}" for i in (0, 1, 2, 0)]
    assert [v.initializer.device for v in variables] == [v.device for v in variables]
    assert total.device == "/job:worker"


def test_devices_may_name_processors() -> None:
    setter = tf.train.replica_device_setter(
        worker_device="/job:worker/task:1/gpu:0", ps_device="/job:ps/cpu:0", cluster=CLUSTER
    )
    with tf.device(setter):
        v = tf.Variable(1.0)
        x = tf.constant(1.0)
    assert v.device == "/job:ps/task:0/device:CPU:0"
    assert x.device == "/job:worker/task:1/device:GPU:0"


def test_devices_of_inner_scopes_stay_and_are_completed() -> None:
    with tf.device(tf.train.replica_device_setter(ps_tasks=3, worker_device="/job:worker/task:1")):
        with tf.device("/job:ps/task:2"):
            fixed = tf.Variable(1.0)
        with tf.device("/cpu:0"):
            on_cpu = tf.Variable(1.0)
            sum_on_cpu = tf.add(1.0, 2.0)
        with tf.device("/job:worker/task:0"):
            own = tf.Variable(1.0)
        with tf.device(None):
            free = tf.Variable(1.0)
    assert fixed.device == "/job:ps/task:2"
    # A task that was given still counts as a turn, as in TensorFlow.
    assert on_cpu.device == "/job:ps/task:1/device:CPU:0"
    assert sum_on_cpu.device == "/job:worker/task:1/device:CPU:0"
    assert own.device == "/job:worker/task:0"
    assert free.device == ""


def test_without_merging_a_device_that_is_given_is_left_alone() -> None:
    setter = tf.train.replica_device_setter(ps_tasks=2, merge_devices=False)
    with tf.device(setter), tf.device("/cpu:0"):
        assert tf.Variable(1.0).device == "/device:CPU:0"
    assert devices_of_variables(setter, 1) == ["/job:ps/task:0"]


def test_without_ps_tasks_nothing_is_placed() -> None:
    assert tf.train.replica_device_setter() is None
    assert tf.train.replica_device_setter(cluster={"worker": ["w0:1"]}) is None
    assert devices_of_variables(tf.train.replica_device_setter(), 1) == [""]


def test_ps_ops_say_what_goes_to_the_ps_tasks() -> None:
    with tf.device(tf.train.replica_device_setter(ps_tasks=2, ps_ops=["FIFOQueueV2"])):
        queue = tf.FIFOQueue(1, tf.float32)
        variable = tf.Variable(1.0)
    assert queue.queue_ref.device.startswith("/job:ps/task:0")
    assert variable.device == "/job:worker"


def test_other_jobs_can_hold_the_parameters() -> None:
    cluster = {"memory": ["a:1", "b:1"], "worker": ["c:1"]}
    setter = tf.train.replica_device_setter(ps_device="/job:memory", cluster=cluster)
    assert devices_of_variables(setter, 3) == [f"/job:memory/task:{i}" for i in (0, 1, 0)]
    empty = tf.train.replica_device_setter(ps_tasks=2, ps_device="")
    assert devices_of_variables(empty, 1) == ["/job:worker"]


def synchronous() -> Any:
    return tf.train.SyncReplicasOptimizer(tf.train.AdamOptimizer(), 2, 2)


#: The tasks, of 2 and of 3 ps tasks, that the variable gets which is made after the optimizer of a
#: model with eight variables: recorded from TensorFlow 2.21, which gives slots a turn too.
NEXT_TASKS: dict[str, tuple[Callable[[], Any], tuple[int, int]]] = {
    "descent": (lambda: tf.train.GradientDescentOptimizer(0.1), (0, 2)),
    "momentum": (lambda: tf.train.MomentumOptimizer(0.1, 0.9), (1, 0)),
    "adagrad": (lambda: tf.train.AdagradOptimizer(0.1), (1, 0)),
    "adagrad_da": (
        lambda: tf.train.AdagradDAOptimizer(0.1, tf.train.get_global_step()),
        (0, 1),
    ),
    "adadelta": (lambda: tf.train.AdadeltaOptimizer(0.1), (0, 1)),
    "adam": (lambda: tf.train.AdamOptimizer(0.1), (0, 0)),
    "rmsprop": (lambda: tf.train.RMSPropOptimizer(0.1), (0, 1)),
    "rmsprop_centered": (lambda: tf.train.RMSPropOptimizer(0.1, centered=True), (1, 2)),
    "ftrl": (lambda: tf.train.FtrlOptimizer(0.1), (0, 1)),
    "proximal": (lambda: tf.train.ProximalGradientDescentOptimizer(0.1), (0, 2)),
    "proximal_adagrad": (lambda: tf.train.ProximalAdagradOptimizer(0.1), (1, 0)),
    "synchronous": (synchronous, (1, 2)),
}


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("name", NEXT_TASKS)
def test_slots_stand_beside_their_variable_and_take_a_turn_each(name: str, resource: bool) -> None:
    make, expected = NEXT_TASKS[name]
    for ps_tasks, task in zip((2, 3), expected, strict=True):
        with (
            tf.Graph().as_default(),
            tf.device(tf.train.replica_device_setter(ps_tasks=ps_tasks)),
        ):
            step = tf.train.get_or_create_global_step()
            plain = [tf.get_variable(f"v{i}", [3, 2 + i], use_resource=resource) for i in range(4)]
            table = tf.get_variable(
                "p", [5, 2], partitioner=tf.fixed_size_partitioner(3), use_resource=resource
            )
            loss = sum(tf.reduce_sum(tf.square(v)) for v in plain)
            loss += tf.reduce_sum(tf.nn.embedding_lookup(table, [1, 2]))
            optimizer = make()
            optimizer.minimize(loss, global_step=step)
            late = tf.get_variable("late", [2], use_resource=resource)
            variables = [*plain, *table]
            assert [v.device for v in [step, *variables]] == [
                f"/job:ps/task:{i % ps_tasks}" for i in range(8)
            ]
            for variable in variables:
                for slot in optimizer.get_slot_names():
                    assert optimizer.get_slot(variable, slot).device == variable.device
            assert late.device == f"/job:ps/task:{task}"


def test_a_variable_that_is_made_beside_another_asks_the_setter_and_stands_beside_it() -> None:
    with tf.device("/job:ps/task:0"):
        beside = tf.constant(1.0)
        with tf.colocate_with(tf.constant(2.0)), tf.device("/job:ps/task:1"):
            kept = tf.Variable(1.0)
    nowhere = tf.constant(1.0)
    with tf.device("/job:ps/task:1"), tf.colocate_with(nowhere):
        plain, variable = tf.constant(1.0), tf.Variable(1.0)
    with tf.device("/job:ps/task:1"), tf.colocate_with(beside):
        other = tf.Variable(1.0)
    assert [v.device for v in (kept, plain, variable, other)] == [
        "/job:ps/task:0", "", "/job:ps/task:1", "/job:ps/task:0"
    ]  # fmt: skip


@pytest.mark.parametrize("use_resource", [False, True])
def test_the_greedy_strategy_evens_out_bytes(use_resource: bool) -> None:
    strategy = tf.contrib.training.GreedyLoadBalancingStrategy(
        2, tf.contrib.training.byte_size_load_fn
    )
    sizes = [100, 10, 30, 70, 1]
    with tf.device(tf.train.replica_device_setter(ps_tasks=2, ps_strategy=strategy)):
        variables = [tf.Variable(np.zeros(n), use_resource=use_resource) for n in sizes]
    tasks = [int(v.device[-1]) for v in variables]
    assert tasks == [0, 1, 1, 1, 0]


def test_a_load_can_be_anything_that_is_a_number() -> None:
    strategy = tf.contrib.training.GreedyLoadBalancingStrategy(3, lambda op: 1)
    setter = tf.train.replica_device_setter(ps_tasks=3, ps_strategy=strategy)
    assert devices_of_variables(setter, 5) == [f"/job:ps/task:{i}" for i in (0, 1, 2, 0, 1)]


def test_byte_sizes_are_those_of_the_contents() -> None:
    size = tf.contrib.training.byte_size_load_fn
    assert size(tf.Variable(np.zeros((3, 4), np.float32)).op) == 48
    assert size(tf.Variable(np.zeros((3, 4), np.float64), use_resource=True).op) == 96
    assert size(tf.Variable(1, name="scalar").op) == 4
    assert size(tf.Variable(np.zeros((0, 4), np.float32)).op) == 0
    unknown = tf.Variable(tf.placeholder(tf.float32, [None]), validate_shape=False, name="unknown")
    with pytest.raises(ValueError, match="of unknown is not fully defined"):
        size(unknown.op)
    with pytest.raises(ValueError, match="Op nothing must have a single output"):
        size(tf.no_op(name="nothing"))


def test_the_random_strategy_is_the_same_in_every_worker_and_spreads() -> None:
    def placed(seed: int) -> list[str]:
        with tf.Graph().as_default():
            strategy = tf.contrib.training.RandomStrategy(4, seed)
            return devices_of_variables(
                tf.train.replica_device_setter(ps_tasks=4, ps_strategy=strategy), 40
            )

    assert placed(0) == placed(0) != placed(1)
    assert len(set(placed(0))) == 4
    # The MD5 sum of "v0_0", modulo 4.
    assert placed(0)[0] == "/job:ps/task:3"


def test_what_is_no_cluster_and_no_strategy_is_refused() -> None:
    with pytest.raises(TypeError, match="`cluster` must be a dictionary"):
        tf.train.replica_device_setter(cluster=3)
    with pytest.raises(TypeError, match="ps_strategy must be callable, got 'greedy'"):
        tf.train.replica_device_setter(ps_tasks=1, ps_strategy="greedy")


# -- Partitioned variables spread over the ps tasks ---------------------------------------------


@pytest.mark.parametrize(
    ("partitioner", "parts"),
    [
        (tf.fixed_size_partitioner(3), 3),
        (tf.variable_axis_size_partitioner(10 * 8), 2),
        (tf.min_max_variable_partitioner(max_partitions=4, min_slice_size=50), 4),
    ],
    ids=["fixed_size", "variable_axis_size", "min_max"],
)
def test_parts_of_a_variable_go_to_different_ps_tasks(partitioner, parts: int) -> None:
    with tf.device(tf.train.replica_device_setter(ps_tasks=5)):
        whole = tf.get_variable("w", [20, 2], partitioner=partitioner)
    assert [v.device for v in whole] == [f"/job:ps/task:{i}" for i in range(parts)]
    assert sum(v.shape[0].value for v in whole) == 20


OPTIMIZERS = {
    "gradient_descent": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adam": lambda: tf.train.AdamOptimizer(0.1),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1),
}


@pytest.mark.parametrize(
    ("name", "strategy", "use_resource"),
    [
        ("gradient_descent", "mod", False),
        ("momentum", "div", False),
        ("adagrad", "mod", True),
        ("adagrad", "div", False),
        ("adam", "div", True),
        ("ftrl", "mod", False),
    ],
)
def test_an_embedding_in_parts_learns_as_one_in_a_piece(
    name: str, strategy: str, use_resource: bool
) -> None:
    first = np.sin(np.arange(22.0)).reshape(11, 2).astype(np.float32)
    rows = np.arange(11)
    if strategy == "mod":
        # Row i lies in part i % 3: the rows of the parts, one after the other.
        rows = np.concatenate([np.arange(11)[p::3] for p in range(3)])

    def train(partitioner, start):
        def rows_of_part(shape, dtype=None, partition_info=None):
            offset = partition_info.single_offset(shape) if partition_info else 0
            return tf.constant(start[offset : offset + shape[0]])

        with tf.Graph().as_default():
            table = tf.get_variable(
                "table",
                [11, 2],
                initializer=rows_of_part,
                partitioner=partitioner,
                use_resource=use_resource,
            )
            ids = tf.constant([0, 7, 10, 7, 3])
            looked_up = tf.nn.embedding_lookup(table, ids, partition_strategy=strategy)
            loss = tf.reduce_sum(tf.square(looked_up - 0.5))
            step = OPTIMIZERS[name]().minimize(loss)
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                for _ in range(5):
                    session.run(step)
                return session.run(tf.convert_to_tensor(table))

    expected = train(None, first)
    found = train(tf.fixed_size_partitioner(3), first[rows])
    np.testing.assert_allclose(found[np.argsort(rows)], expected, rtol=1e-5, atol=1e-6)


# -- In-graph replication -------------------------------------------------------------------------


def test_towers_with_averaged_gradients_learn_as_one_model_with_the_whole_batch() -> None:
    inputs = np.sin(np.arange(24.0)).reshape(12, 2).astype(np.float32)
    towers = 3

    def train(count: int) -> np.ndarray:
        with tf.Graph().as_default():
            x = tf.placeholder(tf.float32, [12, 2])
            with tf.device("/cpu:0"):
                w = tf.get_variable("w", [2, 1], initializer=tf.ones_initializer())
            optimizer = tf.train.MomentumOptimizer(0.2, 0.9)
            gradients = []
            for i, part in enumerate(tf.split(x, count)):
                with tf.device(f"/cpu:{i}"), tf.name_scope(f"tower_{i}"):
                    loss = tf.reduce_mean(tf.square(tf.matmul(part, w) - 1.0))
                    ((gradient, _),) = optimizer.compute_gradients(loss, [w])
                assert gradient.device == f"/device:CPU:{i}"
                gradients.append(gradient)
            mean = tf.reduce_mean(tf.stack(gradients), axis=0)
            step = optimizer.apply_gradients([(mean, w)])
            config = tf.ConfigProto(device_count={"CPU": count})
            with tf.Session(config=config) as session:
                session.run(tf.global_variables_initializer())
                for _ in range(6):
                    session.run(step, {x: inputs})
                return session.run(w)

    np.testing.assert_allclose(train(towers), train(1), rtol=1e-5)
