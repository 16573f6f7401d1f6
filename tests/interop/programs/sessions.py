"""What a session does besides training: runs in parts, callables, errors, traces, queues, files."""

import os
import tempfile
import threading

import numpy as np
import sites
import tensorflow.compat.v1 as tf


@sites.case
def partial_run(site):
    with site.worker():
        a = tf.placeholder(tf.float32, [])
        b = tf.placeholder(tf.float32, [])
        c = tf.placeholder(tf.float32, [])
    with site.ps():
        r1 = a + b
    with site.worker(1):
        r2 = r1 * c
    with site.session() as sess:
        found = []
        for factor in (1.0, 2.0):
            handle = sess.partial_run_setup([r1, r2], [a, b, c])
            found.append(sess.partial_run(handle, r1, {a: 1.0, b: 2.0}))
            found.append(sess.partial_run(handle, r2, {c: factor * found[-1]}))
        handle = sess.partial_run_setup([r1, r2], [a, b, c])
        sess.partial_run(handle, r1, {a: 1.0, b: 2.0})
        found.append(sites.raised(lambda: sess.partial_run(handle, r2))[0].__name__)
        found.append(sites.raised(lambda: sess.partial_run(handle, r1, {a: 5.0}))[0].__name__)
        found.append(sess.partial_run(handle, r2, {c: 4.0}))
        found.append(sites.raised(lambda: sess.partial_run("none", r1, {a: 5.0}))[0].__name__)
    return found


@sites.case
def make_callable(site):
    with site.ps():
        v = tf.get_variable("callable_v", initializer=10.0)
    with site.worker():
        x = tf.placeholder(tf.float32, [None])
        y = tf.placeholder(tf.float32, [])
        z = x * y + v
    grow = tf.assign_add(v, 1.0).op
    with site.session() as sess:
        sess.run(tf.global_variables_initializer())
        compute = sess.make_callable([z, v], [x, y])
        advance = sess.make_callable(grow)
        found = [compute([1.0, 2.0], 3.0)]
        advance()
        found.append(compute([1.0, 2.0, 4.0], 3.0))
        del advance
        again = sess.make_callable({"z": z}, [x, y])
        found.append(sorted(again([0.0], 0.0).items()))
        return found


@sites.case
def callables_from_options(site):
    """MakeCallable and RunCallable, which is how TensorFlow's own Keras layers ran steps."""
    from tensorflow.core.protobuf import config_pb2

    with site.worker():
        x = tf.placeholder(tf.float32, [2])
        y = x * 3.0
    options = config_pb2.CallableOptions()
    options.feed.append(x.name)
    options.fetch.append(y.name)
    with site.session() as sess:
        call = sess._make_callable_from_options(options)
        found = [call(np.array([1.0, 2.0], np.float32)), call(np.array([0.0, 5.0], np.float32))]
        del call
        return found


@sites.case
def uninitialized_variables(site):
    with site.ps():
        ref = tf.get_variable("missing_ref", initializer=1.0, use_resource=False)
        resource = tf.get_variable("missing_resource", initializer=1.0, use_resource=True)
        report = tf.report_uninitialized_variables([ref, resource])
    found = []
    with site.session() as sess:
        for variable in (ref, resource):
            kind, text = sites.raised(lambda v=variable: sess.run(v + 1.0))
            found += [kind.__name__, variable.op.name in text]
        found.append(sorted(sess.run(report).tolist()))
        sess.run(resource.initializer)
        found.append(sess.run(tf.is_variable_initialized(resource)))
        found.append(sess.run(report).tolist())
    return found


def _error(sess, call, op=None):
    try:
        call()
    except tf.errors.OpError as error:
        named = error.op.name if error.op is not None else None
        return [type(error).__name__, error.error_code, named]
    return None


@sites.case
def errors_carry_class_and_operation(site):
    with site.worker(1):
        x = tf.placeholder(tf.float32, None, name="x")
        y = tf.placeholder(tf.float32, None, name="y")
        product = tf.matmul(x, y, name="product")
        gathered = tf.gather(tf.constant([1, 2, 3]), tf.cast(x, tf.int32), name="gathered")
        check = tf.Assert(tf.reduce_all(x > 0), [x], name="checked")
        numeric = tf.check_numerics(x, "not a number here", name="numeric")
    with site.worker():
        rows = tf.reshape(x, [2, -1], name="rows")
    with site.session() as sess:
        good = np.ones((2, 2), np.float32)
        found = [
            _error(sess, lambda: sess.run(product, {x: good, y: np.ones((3, 2))})),
            _error(sess, lambda: sess.run(gathered, {x: 7.0})),
            _error(sess, lambda: sess.run(check, {x: -1.0})),
            _error(sess, lambda: sess.run(numeric, {x: np.nan})),
            _error(sess, lambda: sess.run(rows, {x: np.ones(3)})),
            _error(sess, lambda: sess.run(product, {x: good})),
        ]
        _, text = sites.raised(lambda: sess.run(numeric, {x: np.nan}))
        found.append("not a number here" in text)
        # The session goes on.
        found.append(sess.run(product, {x: good, y: good}))
    return found


@sites.case
def devices_that_are_not_there(site):
    with tf.device("/job:nowhere/task:0"):
        x = tf.constant(1.0) + 1.0
    with site.session() as sess:
        kind, text = sites.raised(lambda: sess.run(x))
        return [kind.__name__, "nowhere" in text]


@sites.case
def strings_and_all_types(site):
    values = {
        "string": np.array([b"a", b"", b"\x00\xff", "ü".encode()], object),
        "bool": np.array([True, False]),
        "int8": np.array([-128, 127], np.int8),
        "uint8": np.array([0, 255], np.uint8),
        "int16": np.array([-32768], np.int16),
        "uint16": np.array([65535], np.uint16),
        "int32": np.array([[1, -2]], np.int32),
        "int64": np.array([2**62, -(2**62)], np.int64),
        "float16": np.array([1.5, np.inf], np.float16),
        "float64": np.array([1e300, -1e-300]),
        "complex64": np.array([1 + 2j], np.complex64),
        "empty": np.zeros([0, 3], np.float32),
    }
    found = {}
    fetches, feeds = {}, {}
    for name, value in values.items():
        kind = tf.as_dtype("string" if name == "string" else value.dtype)
        with site.worker():
            fed = tf.placeholder(kind, value.shape)
        with site.ps(1):
            moved = tf.identity(fed)
        with site.worker(1):
            fetches[name] = tf.concat([moved, tf.constant(value, kind)], 0)
        feeds[fed] = value
    with site.session() as sess:
        results = sess.run(fetches, feeds)
    for name, result in results.items():
        found[name] = [str(result.dtype), list(result.shape), result.ravel().tolist()]
        if name == "complex64":
            found[name][2] = [[c.real, c.imag] for c in found[name][2]]
        if name == "float16":
            found[name][2] = [str(x) for x in found[name][2]]
    with site.worker():
        text = tf.string_join([tf.constant(["x", "y"]), tf.as_string(tf.constant([1, 2]))], "-")
        split = tf.string_split(tf.constant(["a b", "c"])).values
    with site.session() as sess:
        found["text"] = sess.run([text, split])
    return found


@sites.case
def queues(site):
    with site.ps():
        queue = tf.FIFOQueue(10, [tf.int32, tf.string], [[], []], shared_name="numbers")
        # A queue of the cluster outlives a session.
        empty = tf.cond(
            queue.size() > 0,
            lambda: tf.reduce_sum(queue.dequeue_many(queue.size())[0]),
            lambda: tf.constant(0),
        )
    with site.worker():
        value = tf.placeholder(tf.int32, [])
        put = queue.enqueue([value * 2, tf.as_string(value)])
        put_many = queue.enqueue_many([tf.range(3), tf.constant(["a", "b", "c"])])
    with site.worker(1):
        got = queue.dequeue()
        got_many = queue.dequeue_many(3)
        up_to = queue.dequeue_up_to(5)
    found = []
    with site.session() as sess:
        sess.run(empty)
        for i in (3, 4):
            sess.run(put, {value: i})
        sess.run(put_many)
        found.append(sess.run(queue.size()))
        found.append(sess.run(got))
        found.append(sess.run(got_many))
        waiting = []
        thread = threading.Thread(target=lambda: waiting.append(sess.run(got_many)))
        thread.start()
        sess.run(put_many)
        thread.join(20)
        found.append(waiting)
        sess.run(queue.close())
        found.append(sess.run(up_to))
        found.append(_error(sess, lambda: sess.run(got)))
        found.append(_error(sess, lambda: sess.run(put, {value: 1})))
    return found


@sites.case
def input_pipeline_with_queue_runners(site):
    with site.worker():
        numbers = tf.train.range_input_producer(6, num_epochs=2, shuffle=False, capacity=4)
        batch = tf.train.batch([numbers.dequeue() * 10], 3)
    found = []
    with site.session() as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess, coord)
        try:
            while not coord.should_stop():
                found.append(sess.run(batch).tolist())
        except tf.errors.OutOfRangeError as error:
            found.append(type(error).__name__)
        coord.request_stop()
        coord.join(threads, stop_grace_period_secs=10)
    return found


@sites.case
def deadlines_and_cancelling(site):
    with site.ps():
        queue = tf.FIFOQueue(1, tf.int32, [[]], shared_name="never_filled")
    with site.worker():
        got = queue.dequeue() + 1
    found = []
    with site.session() as sess:
        options = tf.RunOptions(timeout_in_ms=200)
        found.append(_error(sess, lambda: sess.run(got, options=options))[:2])
        found.append(sess.run(queue.size()))
    with site.session() as sess:
        outcome = []
        thread = threading.Thread(
            target=lambda: outcome.append(_error(sess, lambda: sess.run(got)))
        )
        thread.start()
        sess.run(queue.size())
        sess.close()
        thread.join(20)
        found.append([each[0] for each in outcome])
    return found


@sites.case
def save_and_restore(site):
    with site.ps(0):
        a = tf.get_variable("saved_a", initializer=np.arange(6, dtype=np.float32).reshape(2, 3))
        step = tf.train.get_or_create_global_step()
    with site.ps(1):
        b = tf.get_variable("saved_b", initializer=[b"x", b"yz"], use_resource=True)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        saver = tf.train.Saver(sharded=True)
        plain = tf.train.Saver([a, step])
        change = tf.group(tf.assign_add(a, tf.ones([2, 3])), tf.assign_add(step, 1))
        with site.session() as sess:
            sess.run(tf.global_variables_initializer())
            sess.run(change)
            path = saver.save(sess, os.path.join(folder, "sharded"), global_step=step)
            found.append(os.path.basename(path))
            other = plain.save(sess, os.path.join(folder, "plain"))
            sess.run([change, tf.assign(b, [b"gone", b""])])
            found.append(sess.run([a, b, step]))
            saver.restore(sess, path)
            found.append(sess.run([a, b, step]))
            sess.run(change)
            plain.restore(sess, other)
            found.append(sess.run([a, step]))
            reader = tf.train.load_checkpoint(path)
            found.append(sorted(reader.get_variable_to_shape_map().items()))
            found.append(reader.get_tensor("saved_a"))
        with site.session(1) as sess:
            saver.restore(sess, path)
            found.append(sess.run([a, b, step]))
            found.append(os.path.basename(tf.train.latest_checkpoint(folder)))
    return found


@sites.case
def supervised_training(site):
    """Seed 003: MonitoredTrainingSession with a checkpoint, a hook, and a second start."""
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for last in (3, 6):
            with tf.Graph().as_default():
                with site.ps():
                    step = tf.train.get_or_create_global_step()
                    w = tf.get_variable("supervised_w", initializer=[0.0])
                with site.worker():
                    loss = tf.reduce_sum(tf.square(w - 3.0))
                    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
                hooks = [tf.train.StopAtStepHook(last_step=last)]
                with tf.train.MonitoredTrainingSession(
                    master=site.target,
                    checkpoint_dir=folder,
                    hooks=hooks,
                    save_summaries_steps=None,
                    log_step_count_steps=None,
                ) as sess:
                    while not sess.should_stop():
                        sess.run(train)
                        if not sess.should_stop():
                            found.append(sess.run([step, w]))
        return found


@sites.case
def synchronous_replicas(site):
    """Two clients, each a thread with a graph and a session of its own, one update a round."""
    replicas = 2 if site.addresses else 1
    found = [None] * replicas
    initialized = threading.Event()
    # One replica with the mean of both batches takes the same steps as two with one each.
    batches = [[1.0, 5.0], [2.0, 3.0], [0.0, -2.0]]

    def build(index):
        with site.ps(0):
            step = tf.train.get_or_create_global_step()
            w = tf.get_variable("sync_w", initializer=0.5)
        with site.worker(index):
            x = tf.placeholder(tf.float32, [None])
            loss = tf.reduce_mean(tf.square(w * x - 1.0))
            optimizer = tf.train.SyncReplicasOptimizer(
                tf.train.GradientDescentOptimizer(0.02), replicas, total_num_replicas=replicas
            )
            with site.ps(0):
                train = optimizer.minimize(loss, global_step=step)
        # Without tokens at the start, a step ends when its round has.
        return step, w, x, train, optimizer.make_session_run_hook(index == 0, num_tokens=0)

    def work(index):
        with tf.Graph().as_default():
            step, w, x, train, hook = build(index)
            if index == 0:
                creator = tf.train.ChiefSessionCreator(master=site.target_of("worker", 0))
            else:
                initialized.wait(60)  # Else it would look again in half a minute only.
                creator = tf.train.WorkerSessionCreator(master=site.target_of("worker", index))
            with tf.train.MonitoredSession(creator, hooks=[hook], stop_grace_period_secs=1) as sess:
                initialized.set()
                for batch in batches:
                    sess.run(train, {x: batch if replicas == 1 else [batch[index]]})
                found[index] = sess.run([step, w])

    threads = [threading.Thread(target=work, args=[i]) for i in range(replicas)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found[0]


@sites.case
def containers_and_reset(site):
    found = []

    def build():
        with tf.container("box"), site.ps():
            boxed = tf.get_variable("boxed", initializer=1.0)
        with site.ps():
            plain = tf.get_variable("plain", initializer=2.0)
        return boxed, plain

    with tf.Graph().as_default():
        boxed, plain = build()
        if not site.addresses:
            return ["FailedPreconditionError", 5.0]
        sess = site.session()
        sess.run(tf.global_variables_initializer())
        sess.run([boxed.assign(4.0), plain.assign(5.0)])
        tf.Session.reset(site.target, ["box"])
        kind, _ = sites.raised(lambda: sess.run(plain))
        assert kind is tf.errors.AbortedError, kind
        kind, _ = sites.raised(sess.close)
        assert kind is tf.errors.AbortedError, kind
        with site.session() as sess:
            kind, _ = sites.raised(lambda: sess.run(boxed))
            found += [kind.__name__, sess.run(plain)]
    return found


@sites.case
def several_clients_share_variables(site):
    found = []
    graphs = [tf.Graph(), tf.Graph()]
    variables = []
    for graph in graphs:
        with graph.as_default(), site.ps(1):
            variables.append(tf.get_variable("shared_by_clients", initializer=[1.0, 2.0]))
    if not site.addresses:
        return [[1.0, 2.0], [2.0, 4.0], [2.0, 4.0]]
    with (
        site.session(0, graph=graphs[0]) as one,
        site.session(1, graph=graphs[1]) as two,
        site.session(0, graph=graphs[0]) as three,
    ):
        one.run(variables[0].initializer)
        found.append(two.run(variables[1]))
        two.run(variables[1].assign_add(variables[1].value()))
        found.append(one.run(variables[0]))
        found.append(three.run(variables[0]))
    return found


@sites.case
def isolated_sessions_do_not_share(site):
    with site.ps():
        v = tf.get_variable("isolated", initializer=1.0)
    config = tf.ConfigProto(isolate_session_state=True)
    with site.session(config=config) as one, site.session(config=config) as two:
        one.run(v.initializer)
        one.run(v.assign_add(1.0))
        kind, _ = sites.raised(lambda: two.run(v))
        return [one.run(v), kind.__name__]


@sites.case
def lists_devices(site):
    with site.session() as sess:
        names = [(d.name, d.device_type) for d in sess.list_devices()]
    if not site.addresses:
        return [
            (f"/job:{job}/replica:0/task:{i}/device:CPU:0", "CPU")
            for job in ("ps", "worker")
            for i in (0, 1)
        ]
    return sorted(names)


@sites.case
def traces_a_step_of_several_tasks(site):
    with site.ps():
        v = tf.get_variable("traced", initializer=[[1.0]])
    with site.worker(1):
        y = tf.matmul(v, v, name="traced_product")
    metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE, output_partition_graphs=True)
    with site.session() as sess:
        sess.run(v.initializer)
        value = sess.run(y, options=options, run_metadata=metadata)
    devices = sorted({d.device for d in metadata.step_stats.dev_stats if d.node_stats})
    if not site.addresses:
        return [value, ["/job:ps/replica:0/task:0", "/job:worker/replica:0/task:1"], True]
    tasks = sorted({name.partition("/device")[0] for name in devices})
    return [value, [t for t in tasks if t in tasks], len(metadata.partition_graphs) >= 2]


@sites.case
def graphs_that_grow(site):
    found = []
    with site.session() as sess:
        with site.ps():
            v = tf.get_variable("grows", initializer=1.0)
        total = v.value()
        sess.run(v.initializer)
        for i in range(5):
            with site.worker(i % 2):
                total = total * 2.0 + float(i)
            found.append(sess.run(total))
    return found


@sites.case
def big_graph(site):
    with site.ps():
        rows = tf.constant(np.ones((500, 500), np.float32))
    with site.worker():
        x = tf.placeholder(tf.float32, [])
        total = x
        for i in range(1500):
            total = total + (0.5 if i % 2 else -0.25)
        total += tf.reduce_sum(rows)
    with site.session() as sess:
        return sess.run(total, {x: 1.0})


@sites.case
def tensor_handles_and_feeds_of_any_tensor(site):
    with site.worker():
        x = tf.constant([1.0, 2.0])
        y = x * 2.0
        z = y + 1.0
    with site.session() as sess:
        return [sess.run(z, {y: [0.0, 5.0]}), sess.run([x, z, x], {x: [3.0, 3.0]})]


@sites.case
def sparse_tensors_and_structures(site):
    with site.worker():
        sparse = tf.sparse_placeholder(tf.float32, [2, 3])
        dense = tf.sparse_tensor_to_dense(sparse)
        product = tf.sparse_tensor_dense_matmul(sparse, tf.ones([3, 2]))
    with site.session() as sess:
        value = tf.SparseTensorValue([[0, 1], [1, 2]], [4.0, 5.0], [2, 3])
        found = sess.run({"dense": dense, "rest": [product, sparse]}, {sparse: value})
        rest = found["rest"]
        return [found["dense"], rest[0], list(rest[1])]


@sites.case
def random_numbers_of_a_seed_repeat(site):
    found = []
    for _ in range(2):
        with tf.Graph().as_default():
            tf.set_random_seed(17)
            with site.worker():
                x = tf.random_normal([1000])
                y = tf.random_uniform([1000], 0, 10, tf.int32)
            with site.session() as sess:
                found.append(sess.run([x, y]) + sess.run([x, y]))
    same = all(np.array_equal(a, b) for a, b in zip(*found, strict=True))
    moved = not np.array_equal(found[0][0], found[0][2])
    return [same, moved, abs(float(np.mean(found[0][0]))) < 0.2, int(found[0][1].max())]


@sites.case
def soft_placement(site):
    config = tf.ConfigProto(allow_soft_placement=True)
    name = "/job:worker/task:1/device:GPU:0" if site.addresses else "/device:GPU:0"
    with tf.device(name):
        x = tf.constant([1.0, 2.0]) * 2.0
    with site.session(config=config) as soft:
        found = [soft.run(x)]
    with site.session() as hard:
        kind, text = sites.raised(lambda: hard.run(x))
        found += [kind.__name__, "GPU" in text]
    return found


if __name__ == "__main__":
    sites.main()
