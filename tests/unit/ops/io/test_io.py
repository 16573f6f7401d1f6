"""Readers and whole files. Keys, values and errors are those of TensorFlow 2.21."""

import gzip
import zlib

import pytest

import millrace as tf
from millrace.ops.data_flow.queue_kernels import Queue
from millrace.ops.io.reader_kernels import Reader


@pytest.fixture
def session(graph):
    with tf.Session(graph=graph) as session:
        yield session


@pytest.fixture
def files(tmp_path):
    """Writes files, and gives their names."""

    def write(**contents):
        names = []
        for name, content in contents.items():
            path = tmp_path / name
            path.write_bytes(content)
            names.append(str(path))
        return names if len(names) > 1 else names[0]

    return write


def queue_of(session, names, close=True):
    queue = tf.FIFOQueue(20, tf.string, shapes=[[]])
    if names:
        session.run(queue.enqueue_many([names]))
    if close:
        session.run(queue.close())
    return queue


def records(session, reader, names):
    """All records of files, with keys cut to what follows the folder."""
    key, value = reader.read(queue_of(session, names))
    found = []
    while True:
        try:
            k, v = session.run([key, value])
        except tf.errors.OutOfRangeError:
            return found
        found.append((k.decode().rpartition("/")[2], v))


def reads_waiting(session):
    return sum(
        len(queue.state._dequeues) for _, _, queue in session._backend.state.resources.all_of(Queue)
    )


# -- Formats -----------------------------------------------------------------------------


def test_lines_are_read_without_their_ends(session, files):
    names = files(a=b"one\ntwo\r\nthree", empty=b"", c=b"x\n\ny\n")
    assert records(session, tf.TextLineReader(), names) == [
        ("a:1", b"one"),
        ("a:2", b"two"),
        ("a:3", b"three"),
        ("c:1", b"x"),
        ("c:2", b""),
        ("c:3", b"y"),
    ]


def test_header_lines_of_every_file_are_skipped(session, files):
    names = files(a=b"h\none\n", b=b"h\ntwo\n", c=b"")
    reader = tf.TextLineReader(skip_header_lines=1)
    assert records(session, reader, names) == [("a:2", b"one"), ("b:2", b"two")]


def test_whole_files_and_names_are_records(session, files):
    name = files(a=b"one\ntwo")
    assert records(session, tf.WholeFileReader(), [name]) == [("a", b"one\ntwo")]
    assert records(session, tf.IdentityReader(), ["A", "B"]) == [("A", b"A"), ("B", b"B")]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"record_bytes": 2, "header_bytes": 2, "footer_bytes": 2}, [b"aa", b"bb", b"cc"]),
        (
            {"record_bytes": 2, "header_bytes": 2, "footer_bytes": 2, "hop_bytes": 1},
            [b"aa", b"ab", b"bb", b"bc", b"cc"],
        ),
        ({"record_bytes": 2, "hop_bytes": 3}, [b"HH", b"ab", b"cc"]),
        ({"record_bytes": 4}, [b"HHaa", b"bbcc"]),
        ({"record_bytes": 40}, []),
    ],
)
def test_records_of_fixed_length_lie_between_header_and_footer(session, files, options, expected):
    content = b"HHaabbccFF"
    found = records(session, tf.FixedLengthRecordReader(**options), [files(f=content)])
    assert found == [(f"f:{i}", value) for i, value in enumerate(expected)]
    for encoding, compress in (("ZLIB", zlib.compress), ("GZIP", gzip.compress)):
        reader = tf.FixedLengthRecordReader(**options, encoding=encoding)
        assert records(session, reader, [files(f=compress(content))]) == found


def test_tf_records_have_their_offset_as_key(session, tmp_path):
    for compression in ("", "GZIP", "ZLIB"):
        options = tf.python_io.TFRecordOptions(compression)
        path = str(tmp_path / "r.tfrecord")
        with tf.python_io.TFRecordWriter(path, options) as writer:
            for record in (b"r1", b"r2", b""):
                writer.write(record)
        assert records(session, tf.TFRecordReader(options=options), [path]) == [
            ("r.tfrecord:0", b"r1"),
            ("r.tfrecord:18", b"r2"),
            ("r.tfrecord:36", b""),
        ]


def test_several_records_of_one_file_are_read_at_once(session, files):
    first, second = files(a=b"1\n2\n3\n", b=b"4\n")
    keys, values = tf.TextLineReader().read_up_to(queue_of(session, [first, second]), 2)
    assert keys.shape.as_list() == [None]
    assert [session.run(values).tolist() for _ in range(3)] == [[b"1", b"2"], [b"3"], [b"4"]]
    with pytest.raises(tf.errors.OutOfRangeError):
        session.run(keys)
    none = tf.TextLineReader().read_up_to(queue_of(session, [first]), 0)
    assert session.run(none).values.tolist() == []


# -- Waiting -----------------------------------------------------------------------------


def test_a_read_waits_for_a_file_name_without_holding_up_others(session, files, background, until):
    name = files(a=b"one\ntwo\n")
    queue = queue_of(session, [], close=False)
    value = tf.TextLineReader().read(queue).value
    enqueue = queue.enqueue(name)
    calls = [background(lambda: session.run(value)) for _ in range(2)]
    until(lambda: reads_waiting(session) == 1 and len(session._backend._steps) == 2)
    session.run(enqueue)
    assert sorted(call.result() for call in calls) == [b"one", b"two"]


def test_a_read_that_times_out_leaves_the_reader_usable(session, files):
    queue = queue_of(session, [], close=False)
    reader = tf.TextLineReader()
    read = reader.read(queue)
    with pytest.raises(tf.errors.DeadlineExceededError):
        session.run(read, options=tf.RunOptions(timeout_in_ms=50))
    session.run(queue.enqueue(files(a=b"one\n")))
    assert session.run(read).value == b"one"


def test_reads_in_line_behind_a_waiting_one_can_be_cancelled(session, files, background, until):
    queue = queue_of(session, [], close=False)
    read = tf.TextLineReader().read(queue)
    enqueue = queue.enqueue(files(a=b"one\n"))
    first = background(lambda: session.run(read))
    until(lambda: reads_waiting(session) == 1)
    with pytest.raises(tf.errors.DeadlineExceededError, match="earlier reads of TextLineReader"):
        session.run(read, options=tf.RunOptions(timeout_in_ms=50))
    session.run(enqueue)
    assert first.result().value == b"one"


def test_an_error_of_one_read_does_not_stop_those_behind_it(session, files, background, until):
    queue = queue_of(session, [], close=False)
    read = tf.TextLineReader().read(queue)
    enqueue = queue.enqueue_many([["/no/such/file", files(a=b"one\n")]])
    calls = [background(lambda: session.run(read)) for _ in range(2)]
    until(lambda: reads_waiting(session) == 1 and len(session._backend._steps) == 2)
    session.run(enqueue)
    outcomes = []
    for call in calls:
        try:
            outcomes.append(call.result().value)
        except tf.errors.NotFoundError:
            outcomes.append("missing")
    assert sorted(outcomes, key=str) == [b"one", "missing"]


# -- State -------------------------------------------------------------------------------


def test_a_reader_counts_records_and_files(session, files):
    reader = tf.TextLineReader()
    counts = [reader.num_records_produced(), reader.num_work_units_completed()]
    _, values = reader.read_up_to(queue_of(session, [files(a=b"1\n2\n")]), 9)
    session.run(values)
    assert session.run(counts) == [2, 1]
    session.run(reader.reset())
    assert session.run(counts) == [0, 0]


def test_the_state_of_a_reader_without_positions_can_be_saved(session):
    reader = tf.IdentityReader()
    assert reader.supports_serialize and not tf.TextLineReader().supports_serialize
    session.run(reader.read(queue_of(session, ["A", "B"])))
    state = session.run(reader.serialize_state())
    assert state == b'\x08\x01\x10\x01\x18\x01"\x01A'  # as TensorFlow writes it
    session.run(reader.reset())
    session.run(reader.restore_state(state))
    assert session.run(reader.num_records_produced()) == 1
    with pytest.raises(tf.errors.InvalidArgumentError, match="Could not parse state for Identity"):
        session.run(reader.restore_state("junk"))


def test_the_state_of_other_readers_cannot(session):
    reader = tf.TextLineReader()
    with pytest.raises(tf.errors.UnimplementedError, match="Reader SerializeState"):
        session.run(reader.serialize_state())
    with pytest.raises(tf.errors.UnimplementedError, match="Reader RestoreState"):
        session.run(reader.restore_state("x"))


# -- Errors ------------------------------------------------------------------------------


def test_a_file_that_is_missing_or_damaged_is_left_for_the_next(session, files, tmp_path):
    good = str(tmp_path / "good.tfrecord")
    with tf.python_io.TFRecordWriter(good) as writer:
        writer.write(b"fine")
    bad = files(bad=(tmp_path / "good.tfrecord").read_bytes()[:-3])
    read = tf.TFRecordReader().read(queue_of(session, ["/no/such", bad, good]))
    with pytest.raises(tf.errors.NotFoundError, match="/no/such; No such file or directory"):
        session.run(read)
    with pytest.raises(tf.errors.DataLossError, match="truncated record at 0"):
        session.run(read)
    assert session.run(read).value == b"fine"


def test_a_queue_that_holds_no_names_is_refused(session):
    read = tf.TextLineReader().read(tf.FIFOQueue(2, tf.int32))
    with pytest.raises(tf.errors.InvalidArgumentError, match="A reader needs a queue of file"):
        session.run(read)


def test_a_reader_that_makes_no_sense_is_refused(session):
    for reader, message in (
        (tf.FixedLengthRecordReader(0), "record_bytes must be >= 1 but found 0"),
        (tf.FixedLengthRecordReader(1, header_bytes=-1), "header_bytes must be >= 0"),
        (tf.FixedLengthRecordReader(1, encoding="LZ4"), "Unsupported encoding: LZ4"),
        (tf.TextLineReader(skip_header_lines=-1), "skip_header_lines must be >= 0 not -1"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            session.run(reader.num_records_produced())


def test_old_references_to_readers_work(session, files):
    raw = tf.raw_ops
    reader = tf.ReaderBase(raw.WholeFileReader())
    key, value = reader.read(queue_of(session, [files(a=b"one")]))
    assert key.op.type == "ReaderRead"
    assert session.run(value) == b"one"
    assert session.run(reader.num_records_produced()) == 1
    assert len(session._backend.state.resources.all_of(Reader)) == 1


# -- Whole files -------------------------------------------------------------------------


def test_files_are_read_written_and_found(session, tmp_path):
    name = str(tmp_path / "folder" / "a.txt")
    session.run(tf.write_file(name, "hi"))
    assert session.run(tf.read_file(name)) == b"hi"
    session.run(tf.write_file(str(tmp_path / "folder" / "b.bin"), b"\x00\xff"))
    found = session.run(tf.matching_files([f"{tmp_path}/folder/*.bin", f"{tmp_path}/folder/a*"]))
    assert [f.rpartition(b"/")[2] for f in found] == [b"a.txt", b"b.bin"]
    assert session.run(tf.matching_files(f"{tmp_path}/nothing*")).tolist() == []


def test_reading_what_is_not_there_names_it(session):
    with pytest.raises(tf.errors.NotFoundError, match="/no/such; No such file"):
        session.run(tf.read_file("/no/such"))
    with pytest.raises(ValueError, match="Shape must be rank 0 but is rank 1"):
        tf.read_file(["a"])
