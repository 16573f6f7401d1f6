"""Queues, accumulators, barriers, staging areas, stacks: state that several steps share."""

import numpy as np
from parity_kit import scenario

BLOCKS = "a step blocks in a thread"


@scenario
def fifo_in_order(run, tf):
    q = tf.FIFOQueue(10, tf.float32)
    x = tf.placeholder(tf.float32)
    put, take, size = q.enqueue(x), q.dequeue(), q.size()
    for value in (1.0, 2.0, 3.0):
        run.value(put, {x: value})
    run(size)
    run(take)
    run(take)
    run(size)


@scenario
def fifo_many(run, tf):
    q = tf.FIFOQueue(10, [tf.int32, tf.string], [[], []])
    put = q.enqueue_many([[1, 2, 3, 4, 5], ["a", "b", "c", "d", "e"]])
    run.note([q.dtypes[0].name, q.dtypes[1].name, [s.as_list() for s in q.shapes]])
    run.value(put)
    two = q.dequeue_many(2)
    run.note([t.get_shape().as_list() for t in two])
    run(two)
    run(q.dequeue_up_to(2))
    run(q.size())


@scenario
def fifo_with_names(run, tf):
    q = tf.FIFOQueue(10, [tf.int32, tf.float32], names=["i", "f"], shapes=[[], [2]])
    run.value(q.enqueue({"i": 1, "f": [1.0, 2.0]}))
    run.value(q.enqueue_many({"i": [2, 3], "f": [[3.0, 4.0], [5.0, 6.0]]}))
    run(q.dequeue())
    run(q.dequeue_many(2))
    run.raises("ValueError", lambda: q.enqueue({"i": 1}))
    run.raises("ValueError", lambda: q.enqueue([1, [1.0, 2.0]]))


@scenario
def fifo_close_and_drain(run, tf):
    q = tf.FIFOQueue(10, tf.int32, shapes=[[]])
    run.value(q.enqueue_many([[1, 2, 3, 4, 5]]))
    run(q.is_closed())
    run.value(q.close())
    run(q.is_closed())
    run(q.dequeue_many(2))
    run.fails("CancelledError", q.enqueue(9), words="is closed")
    run(q.dequeue_up_to(10))
    run.fails("OutOfRangeError", q.dequeue(), words="is closed and has insufficient elements")
    run.fails("OutOfRangeError", q.dequeue_up_to(2))


@scenario
def fifo_dequeue_many_from_closed_with_too_few(run, tf):
    q = tf.FIFOQueue(10, tf.int32, shapes=[[]])
    run.value(q.enqueue_many([[1, 2]]))
    run.value(q.close())
    run.fails("OutOfRangeError", q.dequeue_many(3), words="(requested 3, current size 2)")
    run(q.dequeue_many(2))


@scenario(replay=BLOCKS)
def fifo_dequeue_waits_for_an_element(run, tf):
    q = tf.FIFOQueue(10, tf.float32)
    waiting = run.background(q.dequeue())
    run.value(q.enqueue(7.0))
    waiting.result()


@scenario(replay=BLOCKS)
def fifo_enqueue_waits_for_room(run, tf):
    q = tf.FIFOQueue(1, tf.float32)
    run.value(q.enqueue(1.0))
    waiting = run.background(q.enqueue(2.0))
    run(q.dequeue())
    waiting.result()
    run(q.dequeue())


@scenario(replay=BLOCKS)
def fifo_enqueue_many_fills_as_room_comes(run, tf):
    q = tf.FIFOQueue(2, tf.int32, shapes=[[]])
    waiting = run.background(q.enqueue_many([[1, 2, 3, 4, 5]]))
    run([q.dequeue()])
    run([q.dequeue()])
    run(q.dequeue())
    waiting.result()
    run(q.dequeue_many(2))


@scenario(replay=BLOCKS)
def closing_cancels_a_waiting_enqueue(run, tf):
    q = tf.FIFOQueue(1, tf.float32)
    run.value(q.enqueue(1.0))
    waiting = run.background(q.enqueue(2.0))
    run.value(q.close(cancel_pending_enqueues=True))
    waiting.fails("CancelledError")
    run(q.dequeue())


@scenario(replay=BLOCKS)
def closing_ends_a_waiting_dequeue(run, tf):
    q = tf.FIFOQueue(1, tf.float32)
    waiting = run.background(q.dequeue())
    run.value(q.close())
    waiting.fails("OutOfRangeError", words="is closed and has insufficient elements")


@scenario(replay=BLOCKS)
def dequeue_many_collects_from_several_enqueues(run, tf):
    q = tf.FIFOQueue(10, tf.int32, shapes=[[]])
    x = tf.placeholder(tf.int32)
    put = q.enqueue(x)
    waiting = run.background(q.dequeue_many(3))
    for i in range(3):
        run.value(put, {x: i})
    waiting.result()


@scenario
def fifo_timeout(run, tf):
    q = tf.FIFOQueue(1, tf.float32)
    take = q.dequeue()
    options = tf.RunOptions(timeout_in_ms=200)
    try:
        run.session.run(take, options=options)
        run.note("returned")
    except tf.errors.DeadlineExceededError:
        run.note("DeadlineExceededError")
    run.value(q.enqueue(3.0))
    run(q.size())


@scenario
def fifo_shape_errors(run, tf):
    q = tf.FIFOQueue(10, tf.float32, shapes=[[2]])
    run.raises("ValueError", lambda: q.enqueue([1.0, 2.0, 3.0]))
    fed = tf.placeholder(tf.float32)
    run.fails("InvalidArgumentError", q.enqueue(fed), {fed: [1.0]})
    run.value(q.enqueue(fed), {fed: [1.0, 2.0]})
    run(q.size())


@scenario
def fifo_shared_name(run, tf):
    a = tf.FIFOQueue(10, tf.int32, shared_name="shared")
    b = tf.FIFOQueue(10, tf.int32, shared_name="shared")
    run.value(a.enqueue(5))
    run(b.dequeue())


@scenario
def queue_from_list(run, tf):
    a = tf.FIFOQueue(10, tf.int32, shapes=[[]], name="a")
    b = tf.FIFOQueue(10, tf.int32, shapes=[[]], name="b")
    index = tf.placeholder(tf.int32, [])
    chosen = tf.QueueBase.from_list(index, [a, b])
    run.value(a.enqueue(1))
    run.value(b.enqueue(2))
    run(chosen.dequeue(), {index: 1})
    run(chosen.dequeue(), {index: 0})


@scenario
def padding_queue_pads(run, tf):
    q = tf.PaddingFIFOQueue(10, [tf.int32], [[None]])
    x = tf.placeholder(tf.int32, [None])
    put = q.enqueue([x])
    for value in ([1], [2, 3, 4], [5, 6]):
        run.value(put, {x: value})
    many = q.dequeue_many(3)
    run.note(many.get_shape().as_list())
    run(many)


@scenario
def padding_queue_of_several_components(run, tf):
    q = tf.PaddingFIFOQueue(10, [tf.float32, tf.string, tf.int32], [[None, 2], [None], []])
    a, b = tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.string, [None])
    put = q.enqueue([a, b, 7])
    run.value(put, {a: [[1.0, 2.0]], b: ["x"]})
    run.value(put, {a: [[3.0, 4.0], [5.0, 6.0]], b: []})
    run(q.dequeue_many(2))


@scenario
def priority_queue_orders(run, tf):
    q = tf.PriorityQueue(10, [tf.string], [[]])
    run.value(q.enqueue_many([[3, 1, 2], ["c", "a", "b"]]))
    run.value(q.enqueue([0, "first"]))
    run.note([d.name for d in q.dtypes])
    run(q.dequeue_many(2))
    run(q.dequeue())
    run(q.dequeue())


@scenario
def shuffle_queue_returns_everything_once(run, tf):
    q = tf.RandomShuffleQueue(100, 0, tf.int32, shapes=[[]], seed=3)
    run.value(q.enqueue_many([np.arange(50, dtype=np.int32)]))
    first = run.value(q.dequeue_many(25))
    rest = run.value(q.dequeue_many(25))
    assert sorted([*first, *rest]) == list(range(50))
    assert list(first) != list(range(25))
    run(q.size())


@scenario(replay=BLOCKS)
def shuffle_queue_keeps_min_after_dequeue(run, tf):
    q = tf.RandomShuffleQueue(10, 2, tf.int32, shapes=[[]], seed=1)
    x = tf.placeholder(tf.int32, [None])
    put = q.enqueue_many([x])
    run.value(put, {x: [4, 4]})
    waiting = run.background(q.dequeue())
    run.value(put, {x: [4]})
    waiting.result()
    run(q.size())
    run.value(q.close())
    run(q.dequeue_many(2))


@scenario
def shuffle_queue_closed_gives_the_rest(run, tf):
    q = tf.RandomShuffleQueue(10, 5, tf.int32, shapes=[[]], seed=1)
    run.value(q.enqueue_many([[8, 8, 8]]))
    run.value(q.close())
    run(q.dequeue_up_to(2))
    run(q.dequeue())
    run.fails("OutOfRangeError", q.dequeue())


# --- accumulators


@scenario
def accumulator_averages(run, tf):
    acc = tf.ConditionalAccumulator(tf.float32, shape=[2])
    g = tf.placeholder(tf.float32, [2])
    step = tf.placeholder(tf.int64, [])
    apply = acc.apply_grad(g, local_step=step)
    run(acc.num_accumulated())
    run.value(apply, {g: [1.0, 2.0], step: 0})
    run.value(apply, {g: [3.0, 6.0], step: 0})
    run(acc.num_accumulated())
    run(acc.take_grad(2))
    run(acc.num_accumulated())


@scenario
def accumulator_drops_stale_gradients(run, tf):
    acc = tf.ConditionalAccumulator(tf.float32, shape=[])
    g = tf.placeholder(tf.float32, [])
    step = tf.placeholder(tf.int64, [])
    apply = acc.apply_grad(g, local_step=step)
    take = acc.take_grad(1)
    run.value(acc.set_global_step(3))
    run.value(apply, {g: 100.0, step: 2})
    run(acc.num_accumulated())
    run.value(apply, {g: 4.0, step: 3})
    run.value(apply, {g: 8.0, step: 9})
    run(acc.num_accumulated())
    run(take)
    run.value(apply, {g: 1.0, step: 3})
    run(acc.num_accumulated())
    run.value(apply, {g: 1.0, step: 4})
    run(acc.num_accumulated())


@scenario
def accumulator_sum_reduction(run, tf):
    acc = tf.ConditionalAccumulator(tf.float32, shape=[], reduction_type="SUM")
    for value in (1.0, 2.0, 6.0):
        run.value(acc.apply_grad(tf.constant(value)))
    run(acc.take_grad(3))


@scenario(replay=BLOCKS)
def accumulator_take_waits(run, tf):
    acc = tf.ConditionalAccumulator(tf.float32, shape=[])
    apply = acc.apply_grad(tf.constant(2.0))
    waiting = run.background(acc.take_grad(2))
    run.value(apply)
    run.value(apply)
    waiting.result()


@scenario
def accumulator_shape_errors(run, tf):
    acc = tf.ConditionalAccumulator(tf.float32, shape=[2])
    run.raises("ValueError", lambda: acc.apply_grad(tf.zeros([3])))
    free = tf.ConditionalAccumulator(tf.float32)
    run.value(free.apply_grad(tf.zeros([3])))
    run.fails("InvalidArgumentError", free.apply_grad(tf.zeros([2])))
    run.raises("ValueError", lambda: tf.ConditionalAccumulator(tf.float32, reduction_type="MAX"))


@scenario
def accumulator_shared_name(run, tf):
    a = tf.ConditionalAccumulator(tf.float32, shape=[], shared_name="s")
    b = tf.ConditionalAccumulator(tf.float32, shape=[], shared_name="s")
    run.value(a.apply_grad(tf.constant(3.0)))
    run(b.num_accumulated())
    run(b.take_grad(1))


@scenario
def sparse_accumulator_averages_rows(run, tf):
    acc = tf.SparseConditionalAccumulator(tf.float32, shape=[4, 2])
    first = acc.apply_grad([0, 2], [[1.0, 1.0], [2.0, 2.0]], [4, 2], local_step=0)
    second = acc.apply_grad([2, 3], [[4.0, 4.0], [6.0, 6.0]], [4, 2], local_step=0)
    run.value(first)
    run.value(second)
    run(acc.num_accumulated())
    run(acc.take_grad(2))


@scenario
def sparse_accumulator_takes_indexed_slices(run, tf):
    acc = tf.SparseConditionalAccumulator(tf.float32, shape=[3, 1])
    slices = tf.IndexedSlices(
        tf.constant([[1.0], [3.0]]), tf.constant([0, 1], tf.int64), tf.constant([3, 1], tf.int64)
    )
    run.value(acc.apply_indexed_slices_grad(slices, local_step=0))
    run.value(acc.apply_indexed_slices_grad(slices, local_step=0))
    result = acc.take_indexed_slices_grad(2)
    run([result.indices, result.values, result.dense_shape])


@scenario
def sparse_accumulator_drops_stale_gradients(run, tf):
    acc = tf.SparseConditionalAccumulator(tf.float32, shape=[3])
    run.value(acc.set_global_step(2))
    run.value(acc.apply_grad([0], [5.0], [3], local_step=1))
    run(acc.num_accumulated())
    run.value(acc.apply_grad([1], [5.0], [3], local_step=2))
    run(acc.take_grad(1))


# --- barrier, staging, stacks


@scenario
def barrier_completes_when_all_components_are_there(run, tf):
    raw = tf.raw_ops
    barrier = raw.Barrier(component_types=[tf.float32, tf.string], shapes=[[], []])
    first = raw.BarrierInsertMany(
        handle=barrier, keys=["a", "b"], values=[1.0, 2.0], component_index=0
    )
    second = raw.BarrierInsertMany(handle=barrier, keys=["b"], values=["x"], component_index=1)
    third = raw.BarrierInsertMany(handle=barrier, keys=["a"], values=["y"], component_index=1)
    ready, incomplete = (
        raw.BarrierReadySize(handle=barrier),
        raw.BarrierIncompleteSize(handle=barrier),
    )
    take = raw.BarrierTakeMany(
        handle=barrier,
        num_elements=1,
        component_types=[tf.float32, tf.string],
        allow_small_batch=False,
    )
    run.value(first)
    run([ready, incomplete])
    run.value(second)
    run([ready, incomplete])
    run([take.keys, take.values[0], take.values[1]])
    run.value(third)
    run([take.keys, take.values[0], take.values[1]])


@scenario
def barrier_closed(run, tf):
    raw = tf.raw_ops
    barrier = raw.Barrier(component_types=[tf.float32], shapes=[[]])
    insert = raw.BarrierInsertMany(handle=barrier, keys=["a"], values=[1.0], component_index=0)
    take = raw.BarrierTakeMany(
        handle=barrier, num_elements=2, component_types=[tf.float32], allow_small_batch=True
    )
    run.value(insert)
    run.value(raw.BarrierClose(handle=barrier))
    run([take.keys, take.values[0]])
    run.fails("OutOfRangeError", [take.keys])
    run.fails(
        "CancelledError",
        raw.BarrierInsertMany(handle=barrier, keys=["z"], values=[1.0], component_index=0),
    )


@scenario
def staging_area_raw(run, tf):
    raw = tf.raw_ops
    x = tf.placeholder(tf.float32, [])
    options = {"dtypes": [tf.float32], "shared_name": "area"}
    stage = raw.Stage(values=[x], shared_name="area")
    size = raw.StageSize(**options)
    peek = raw.StagePeek(index=0, **options)
    unstage = raw.Unstage(**options)
    for value in (1.0, 2.0):
        run.value(stage, {x: value})
    run(size)
    run(peek)
    run(unstage)
    run(unstage)
    run.value(stage, {x: 3.0})
    run.value(raw.StageClear(**options))
    run(size)


@scenario
def map_staging_raw(run, tf):
    raw = tf.raw_ops
    options = {"dtypes": [tf.float32], "shared_name": "m"}
    for key, value in ((5, 1.0), (3, 2.0)):
        run.value(
            raw.OrderedMapStage(
                key=tf.constant(key, tf.int64), indices=[0], values=[value], **options
            )
        )
    run(raw.OrderedMapSize(**options))
    popped = raw.OrderedMapUnstageNoKey(indices=[0], **options)
    run([popped.key, popped.values[0]])
    run(raw.OrderedMapUnstage(key=tf.constant(5, tf.int64), indices=[0], **options))


@scenario
def stack_raw(run, tf):
    raw = tf.raw_ops
    handle = raw.StackV2(max_size=-1, elem_type=tf.float32)
    push = raw.StackPushV2(handle=handle, elem=[1.0, 2.0])
    with tf.control_dependencies([push]):
        push_again = raw.StackPushV2(handle=handle, elem=[3.0])
    with tf.control_dependencies([push_again]):
        first = raw.StackPopV2(handle=handle, elem_type=tf.float32)
    with tf.control_dependencies([first]):
        second = raw.StackPopV2(handle=handle, elem_type=tf.float32)
    run([first, second])


# --- input pipelines on queues


def _with_runners(run, tf, body):
    coordinator = tf.train.Coordinator()
    run.initialize()
    threads = tf.train.start_queue_runners(run.session, coordinator)
    try:
        body()
    finally:
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=20)


@scenario(replay="queue runners are threads of the client")
def string_input_producer_epochs(run, tf):
    names = tf.train.string_input_producer(["a", "b", "c"], shuffle=False, num_epochs=2)
    take = names.dequeue()

    def body():
        for _ in range(6):
            run(take)
        run.fails("OutOfRangeError", take)

    _with_runners(run, tf, body)


@scenario(replay="queue runners are threads of the client")
def string_input_producer_shuffles(run, tf):
    take = tf.train.string_input_producer(["a", "b", "c"], shuffle=True, seed=1).dequeue()

    def body():
        for _ in range(2):
            epoch = [run.value(take) for _ in range(3)]
            run.note(sorted(epoch))

    _with_runners(run, tf, body)


@scenario(replay="queue runners are threads of the client")
def range_and_slice_producers(run, tf):
    numbers = tf.train.range_input_producer(3, shuffle=False, num_epochs=1).dequeue()
    pair = tf.train.slice_input_producer([["x", "y"], [1, 2]], shuffle=False, num_epochs=1)

    def body():
        for _ in range(3):
            run(numbers)
        run(pair)
        run(pair)
        run.fails("OutOfRangeError", pair)

    _with_runners(run, tf, body)


@scenario(replay="queue runners are threads of the client")
def batch_batches(run, tf):
    number = tf.train.range_input_producer(7, shuffle=False, num_epochs=1).dequeue()
    batch = tf.train.batch([number, number * 10], 3, allow_smaller_final_batch=True)
    run.note([b.get_shape().as_list() for b in batch])

    def body():
        for _ in range(3):
            run(batch)
        run.fails("OutOfRangeError", batch)

    _with_runners(run, tf, body)


@scenario(replay="queue runners are threads of the client")
def batch_drops_the_remainder(run, tf):
    number = tf.train.range_input_producer(7, shuffle=False, num_epochs=1).dequeue()
    batch = tf.train.batch({"n": number}, 3)
    run.note(batch["n"].get_shape().as_list())

    def body():
        run(batch)
        run(batch)
        run.fails("OutOfRangeError", batch["n"])

    _with_runners(run, tf, body)


@scenario(replay="queue runners are threads of the client")
def batch_pads_dynamically(run, tf):
    number = tf.train.range_input_producer(4, shuffle=False, num_epochs=1).dequeue()
    batch = tf.train.batch([tf.range(number)], 2, dynamic_pad=True)
    run.note(batch.get_shape().as_list())

    def body():
        run(batch)
        run(batch)

    _with_runners(run, tf, body)


@scenario(replay="queue runners are threads of the client")
def batch_enqueues_many(run, tf):
    x = tf.constant(np.arange(6, dtype=np.float32).reshape(3, 2))
    batch = tf.train.batch([x], 2, enqueue_many=True)

    def body():
        run(batch)
        run(batch)

    _with_runners(run, tf, body)


@scenario(replay="queue runners are threads of the client")
def shuffle_batch_returns_everything_once(run, tf):
    number = tf.train.range_input_producer(20, shuffle=False, num_epochs=1).dequeue()
    batch = tf.train.shuffle_batch([number], 4, capacity=30, min_after_dequeue=10, seed=5)
    run.note(batch.get_shape().as_list())

    def body():
        seen = [int(v) for _ in range(5) for v in run.value(batch)]
        assert seen != sorted(seen)
        run.note(sorted(seen))
        run.fails("OutOfRangeError", batch)

    _with_runners(run, tf, body)


@scenario(replay="queue runners are threads of the client")
def batch_join_joins(run, tf):
    numbers = [
        tf.train.range_input_producer(4, shuffle=False, num_epochs=1).dequeue() for _ in range(2)
    ]
    batch = tf.train.batch_join([[n] for n in numbers], 4)

    def body():
        seen = [int(v) for _ in range(2) for v in run.value(batch)]
        run.note(sorted(seen))

    _with_runners(run, tf, body)


@scenario(replay="queue runners are threads of the client")
def limit_epochs(run, tf):
    limited = tf.train.limit_epochs(tf.constant([1, 2]), num_epochs=2)
    run.initialize()
    run(limited)
    run(limited)
    run.fails("OutOfRangeError", limited)
