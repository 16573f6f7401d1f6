"""Readers, sparse tensors in queues, and the words of errors: what `queues` leaves out."""

import os
import tempfile
import zlib

import numpy as np
from parity_kit import scenario

A_FILE = "the reader reads a file of this run"
CLIENT_THREADS = "queue runners are threads of the client"


def _queue(run, tf, names):
    queue = tf.FIFOQueue(20, tf.string, shapes=[[]])
    run.value(queue.enqueue_many([names]))
    run.value(queue.close())
    return queue


def _drain(run, tf, reader, names):
    """Writes down all records, with keys cut to what follows the folder."""
    key, value = reader.read(_queue(run, tf, names))
    found = []
    while True:
        try:
            k, v = run.session.run([key, value])
        except tf.errors.OutOfRangeError:
            break
        found.append([os.path.basename(k.decode()), v.decode()])
    run.note(found)


def _write(folder, **contents):
    names = []
    for name, content in contents.items():
        names.append(os.path.join(folder, name))
        with open(names[-1], "wb") as file:
            file.write(content)
    return names


@scenario(replay=A_FILE)
def text_line_reader(run, tf):
    with tempfile.TemporaryDirectory() as folder:
        names = _write(folder, a=b"one\ntwo\r\nthree", b=b"", c=b"x\n\ny\n")
        _drain(run, tf, tf.TextLineReader(), names)
        _drain(run, tf, tf.TextLineReader(skip_header_lines=1), names)
        _drain(run, tf, tf.TextLineReader(skip_header_lines=9), names)


@scenario(replay=A_FILE)
def whole_file_and_identity_readers(run, tf):
    with tempfile.TemporaryDirectory() as folder:
        names = _write(folder, a=b"one\ntwo", b=b"")
        reader = tf.WholeFileReader()
        _drain(run, tf, reader, names)
        run([reader.num_records_produced(), reader.num_work_units_completed()])
        run(reader.serialize_state())
        run.value(reader.reset())
        run([reader.num_records_produced(), reader.num_work_units_completed()])
        _drain(run, tf, tf.IdentityReader(), ["A", "B"])


@scenario(replay=A_FILE)
def fixed_length_record_reader(run, tf):
    with tempfile.TemporaryDirectory() as folder:
        content = b"HHaabbccFF"
        plain, packed = _write(folder, f=content, z=zlib.compress(content))
        for options in (
            {"record_bytes": 2, "header_bytes": 2, "footer_bytes": 2},
            {"record_bytes": 2, "header_bytes": 2, "footer_bytes": 2, "hop_bytes": 1},
            {"record_bytes": 2, "hop_bytes": 3},
            {"record_bytes": 3},
            {"record_bytes": 4},
        ):
            _drain(run, tf, tf.FixedLengthRecordReader(**options), [plain])
            _drain(run, tf, tf.FixedLengthRecordReader(**options, encoding="ZLIB"), [packed])


@scenario(replay=A_FILE)
def tf_record_reader(run, tf):
    with tempfile.TemporaryDirectory() as folder:
        for compression in ("", "GZIP", "ZLIB"):
            path = os.path.join(folder, "r.tfrecord")
            options = tf.python_io.TFRecordOptions(compression)
            with tf.python_io.TFRecordWriter(path, options) as writer:
                for record in (b"r1", b"r2", b""):
                    writer.write(record)
            _drain(run, tf, tf.TFRecordReader(options=options), [path])


@scenario(replay=A_FILE)
def read_up_to_stays_in_one_file(run, tf):
    with tempfile.TemporaryDirectory() as folder:
        names = _write(folder, a=b"1\n2\n3\n", b=b"4\n")
        _, values = tf.TextLineReader().read_up_to(_queue(run, tf, names), 2)
        run.note(values.get_shape().as_list())
        for _ in range(3):
            run(values)
        run.fails("OutOfRangeError", values, words="is closed and has insufficient elements")


@scenario(replay=A_FILE)
def reader_errors(run, tf):
    missing = tf.TextLineReader().read(_queue(run, tf, ["/no/such/file"]))
    run.fails("NotFoundError", missing.value, words="/no/such/file")
    reader = tf.TextLineReader()
    run.fails("UnimplementedError", reader.serialize_state(), words="SerializeState")
    run.fails("UnimplementedError", reader.restore_state("x"), words="RestoreState")
    identity = tf.IdentityReader()
    run.fails("InvalidArgumentError", identity.restore_state("junk"), words="Could not parse state")


@scenario
def reader_state(run, tf):
    reader = tf.IdentityReader()
    queue = tf.FIFOQueue(3, tf.string, shapes=[[]])
    run.value(queue.enqueue_many([["A", "B"]]))
    run(reader.read(queue).value)
    run(reader.serialize_state())
    run.value(reader.restore_state(b"\x08\x05\x10\x05\x18\x07"))
    run([reader.num_records_produced(), reader.num_work_units_completed()])


@scenario(replay=A_FILE)
def whole_files(run, tf):
    with tempfile.TemporaryDirectory() as folder:
        name = os.path.join(folder, "sub", "a.txt")
        run.value(tf.write_file(name, "hi"))
        run(tf.read_file(name))
        _write(os.path.join(folder, "sub"), b=b"", c=b"")
        found = run.value(tf.matching_files([folder + "/sub/[bc]", folder + "/sub/*.txt"]))
        run.note([os.path.basename(f.decode()) for f in found])
        run(tf.matching_files(folder + "/nothing*"))
        run.fails("NotFoundError", tf.read_file(folder + "/nothing"), words="No such file")


@scenario(replay=CLIENT_THREADS)
def batch_of_sparse_tensors(run, tf):
    number = tf.train.range_input_producer(5, shuffle=False, num_epochs=1).dequeue()
    indices = tf.cast(tf.stack([[0, 0], tf.stack([1, number % 3])]), tf.int64)
    sparse = tf.SparseTensor(indices, tf.stack([number, number * 10]), [2, 3])
    batch = tf.train.batch([sparse, number], 2, allow_smaller_final_batch=True)
    run.note([batch[0].indices.get_shape().as_list(), batch[1].get_shape().as_list()])
    coordinator = tf.train.Coordinator()
    run.initialize()
    threads = tf.train.start_queue_runners(run.session, coordinator)
    for _ in range(3):
        run([batch[0].indices, batch[0].values, batch[0].dense_shape, batch[1]])
    run.fails("OutOfRangeError", batch[1])
    coordinator.request_stop()
    coordinator.join(threads, stop_grace_period_secs=20)


@scenario(replay=CLIENT_THREADS)
def maybe_batch_keeps_some(run, tf):
    number = tf.train.range_input_producer(6, shuffle=False, num_epochs=1).dequeue()
    batch = tf.train.maybe_batch([number], tf.equal(number % 2, 0), 3)
    coordinator = tf.train.Coordinator()
    run.initialize()
    threads = tf.train.start_queue_runners(run.session, coordinator)
    run(batch)
    coordinator.request_stop()
    coordinator.join(threads, stop_grace_period_secs=20)


@scenario
def sparse_tensors_map(run, tf):
    raw = tf.raw_ops
    handles = raw.AddManySparseToTensorsMap(
        sparse_indices=np.array([[0, 1], [2, 0], [2, 1]]),
        sparse_values=[1, 2, 3],
        sparse_shape=np.array([3, 2]),
        shared_name="map",
    )
    given = tf.placeholder(tf.int64, [None])
    taken = raw.TakeManySparseFromTensorsMap(
        sparse_handles=given, dtype=tf.int32, shared_name="map"
    )
    numbers = run(handles)
    run(list(taken), {given: numbers})
    run.fails("InvalidArgumentError", taken[0], {given: numbers}, words="Unable to find")


@scenario
def errors_say_what_is_wrong(run, tf):
    queue = tf.FIFOQueue(2, [tf.float32, tf.int32], shapes=[[2], []])
    x, n = tf.placeholder(tf.float32), tf.placeholder(tf.int32)
    for values, words in (
        ([1.0, 2.0, 3.0], "Shape mismatch in tuple component 0. Expected [2], got [3]"),
        ([[1.0]], "Shape mismatch in tuple component 0. Expected [2], got [1,1]"),
    ):
        run.fails("InvalidArgumentError", queue.enqueue((x, 1)), {x: values}, words=words)
    run.fails(
        "InvalidArgumentError",
        queue.enqueue_many((x, [1, 2])),
        {x: [[1.0, 2.0]]},
        words="Shape mismatch in tuple component 1. Expected [1], got [2]",
    )
    many, some = queue.dequeue_many(n)[0], queue.dequeue_up_to(n)[0]
    run.fails("InvalidArgumentError", many, {n: -1}, words="DequeueManyOp requested -1 < 0 elem")
    run.fails("InvalidArgumentError", some, {n: -1}, words="DequeueUpToOp requested -1 < 0 elem")
    run.value(queue.close())
    run.fails("CancelledError", queue.enqueue(([1.0, 2.0], 1)), words="is closed.")
    run.fails("CancelledError", queue.close(), words="is already closed.")
    run.value(queue.close(cancel_pending_enqueues=True))
    run.fails("OutOfRangeError", queue.dequeue()[0], words="(requested 1, current size 0)")


@scenario
def shared_queues_must_agree(run, tf):
    run(tf.FIFOQueue(2, tf.int32, shapes=[[]], shared_name="s").size())
    for other, words in (
        (tf.FIFOQueue(3, tf.int32, shapes=[[]], shared_name="s"), "has capacity 2 but requested"),
        (tf.FIFOQueue(2, tf.float32, shapes=[[]], shared_name="s"), "has component types int32"),
        (tf.FIFOQueue(2, tf.int32, shared_name="s"), "has component shapes [[]] but requested"),
        (
            tf.RandomShuffleQueue(2, 0, tf.int32, shapes=[[]], shared_name="s"),
            "Expected FIFOQueue, found RandomShuffleQueueV2",
        ),
    ):
        run.fails("InvalidArgumentError", other.size(), words=words)


@scenario
def sparse_accumulator_errors(run, tf):
    accumulator = tf.SparseConditionalAccumulator(tf.float32, shape=[4, 2])
    indices, values = tf.placeholder(tf.int64), tf.placeholder(tf.float32)
    apply = accumulator.apply_grad(indices, values, [4, 2])
    for i, v, words in (
        ([2], [[3.0, 3.0], [4.0, 4.0]], "Expected 1 non-empty input values, got 2"),
        ([2], [3.0], "expected values rank at least 2, got 1"),
        ([2], [[3.0]], "expected values dim 1 to be 2, got 1"),
        ([7], [[3.0, 3.0]], "index is 7 exceeded 4"),
        ([[1]], [[3.0, 3.0]], "Input indices should be vector but received shape: [1,1]"),
    ):
        run.fails("InvalidArgumentError", apply, {indices: i, values: v}, words=words)
    run(accumulator.num_accumulated())
    run.fails("InvalidArgumentError", accumulator.take_grad(0)[0], words="must be positive, but")
