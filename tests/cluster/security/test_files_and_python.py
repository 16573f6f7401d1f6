"""What a client elsewhere may touch: the folders that the server allows, and no Python."""

import os
from pathlib import Path
from typing import Any

import pytest

import millrace as tf
from millrace.core import errors
from millrace.ops.control_flow.frames import Merge, Switch
from millrace.ops.data_flow.queue_kernels import QueueDequeueV2
from tests.cluster.security.conftest import keys, run_remotely


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: Any) -> tuple[Path, Path]:
    """A folder that clients may touch, and one that they may not."""
    inside, outside = tmp_path / "job", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (inside / "data").write_bytes(b"data\n")
    (outside / "secret").write_bytes(b"secret\n")
    (inside / "link").symlink_to(outside)
    monkeypatch.setenv("MILLRACE_ALLOWED_FOLDERS", str(inside))
    return inside, outside


def ways_out(inside: Path, outside: Path) -> list[str]:
    return [
        str(outside / "secret"),
        f"{inside}/../outside/secret",
        f"{inside}/link/secret",
        f"file://{outside}/secret",
        f"local://{outside}/secret",
        f"{inside}2/secret",
        f"/proc/self/root{outside}/secret",
        "memory://secret",
    ]


def test_files_outside_of_the_jobs_folders_are_out_of_reach(make_job, folders):
    inside, outside = folders
    cluster, trainer = make_job()
    assert run_remotely(cluster, tf.read_file(str(inside / "data"))) == b"data\n"
    name = tf.placeholder(tf.string, [])
    read, write = tf.read_file(name), tf.write_file(name, "overwritten")
    with tf.Session(cluster.target("ps", 0, remote=True)) as session:
        for path in ways_out(inside, outside):
            for op in (read, write):
                with pytest.raises(errors.PermissionDeniedError, match="MILLRACE_ALLOWED_FOLDERS"):
                    session.run(op, {name: path})
    assert (outside / "secret").read_bytes() == b"secret\n"
    trainer.step()


def _matching(path: str) -> Any:
    return tf.matching_files(f"{path}*")


def _reader(path: str) -> Any:
    queue = tf.FIFOQueue(10, tf.string)
    with tf.control_dependencies([queue.enqueue(path)]):
        return tf.WholeFileReader().read(queue).value


def _waiting_reader(path: str) -> Any:
    """The file's name arrives while the read waits for it."""
    queue = tf.FIFOQueue(10, tf.string)
    return tf.group(tf.WholeFileReader().read(queue).value, queue.enqueue(path))


def _branch_that_waits(path: str) -> Any:
    """It is interpreted, in a thread of its own."""
    queue = tf.FIFOQueue(10, tf.string)
    chosen = tf.equal(queue.size(), queue.size())
    no, _ = Switch(tf.constant("", tf.string), chosen)
    _, handle = Switch(queue.queue_ref, chosen)
    name = QueueDequeueV2(handle, component_types=[tf.string])[0]
    read = Merge([no, tf.read_file(tf.reshape(name, []))])[0]
    return tf.group(read, queue.enqueue(path))


def _table(path: str) -> Any:
    initializer = tf.lookup.TextFileInitializer(
        path,
        tf.string,
        tf.lookup.TextFileIndex.WHOLE_LINE,
        tf.int64,
        tf.lookup.TextFileIndex.LINE_NUMBER,
    )
    return tf.lookup.StaticHashTable(initializer, -1).initializer


def _print(path: str) -> Any:
    return tf.print("overwritten", output_stream=f"file://{path}")


def _restore(path: str) -> Any:
    return tf.raw_ops.RestoreV2(
        prefix=path, tensor_names=["x"], shape_and_slices=[""], dtypes=[tf.float32]
    )


def _save(path: str) -> Any:
    return tf.raw_ops.SaveV2(
        prefix=path, tensor_names=["x"], shape_and_slices=[""], tensors=[tf.constant(1.0)]
    )


def _merge(path: str) -> Any:
    return tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=[path], destination_prefix=path)


def _first(dataset: Any) -> Any:
    return tf.data.make_one_shot_iterator(dataset).get_next()


def _lines(path: str) -> Any:
    return _first(tf.data.TextLineDataset(path).prefetch(2))


def _records(path: str) -> Any:
    return _first(tf.data.TFRecordDataset([path, path], num_parallel_reads=2))


def _comma_separated(path: str) -> Any:
    return _first(tf.data.experimental.CsvDataset(path, [tf.string]).map(lambda x: x, 2))


def _columns(path: str) -> Any:
    types = {"a": tf.int64}
    return _first(tf.data.experimental.ParquetDataset(path, output_types=types))["a"]


def _query(path: str) -> Any:
    make = tf.data.experimental.SqlDataset
    return _first(make("sqlite", path, "SELECT 1", (tf.int64,)))


def _cache_file(path: str) -> Any:
    return _first(tf.data.Dataset.range(3).cache(path))


def _file_in_a_map(path: str) -> Any:
    return _first(tf.data.Dataset.from_tensors(path).map(tf.read_file, 2).prefetch(1))


@pytest.mark.parametrize(
    "op",
    [
        _lines,
        _records,
        _comma_separated,
        _columns,
        _query,
        _cache_file,
        _file_in_a_map,
        _matching,
        _reader,
        _waiting_reader,
        _branch_that_waits,
        _table,
        _print,
        _restore,
        _save,
        _merge,
    ],
)
def test_no_op_touches_what_is_outside(make_job, folders, op):
    inside, outside = folders
    cluster, _ = make_job()
    before = sorted(p.name for p in outside.iterdir())
    with tf.device("/job:ps/task:0"):
        asked = op(f"{inside}/../outside/secret")
    for job in ("ps", "worker"):
        with pytest.raises(errors.PermissionDeniedError):
            run_remotely(cluster, asked, job)
    assert sorted(p.name for p in outside.iterdir()) == before
    assert (outside / "secret").read_bytes() == b"secret\n"


def test_a_checkpoint_goes_to_the_jobs_folder_and_to_no_other(make_job, folders):
    inside, outside = folders
    cluster, trainer = make_job()
    with tf.device("/job:ps/task:0"):
        tf.Variable([1.0, 2.0], name="saved")
    saver = tf.train.Saver()
    with tf.Session(cluster.target("worker", 0, remote=True)) as session:
        session.run(tf.global_variables_initializer())
        assert saver.save(session, str(inside / "model")) == str(inside / "model")
        for path in (f"{inside}/../outside/model", f"{inside}/link/model"):
            with pytest.raises(errors.PermissionDeniedError):
                saver.save(session, path)
        saver.restore(session, str(inside / "model"))
    assert [p.name for p in outside.iterdir()] == ["secret"]
    trainer.step()


def test_a_client_of_the_servers_process_may_do_what_the_process_may(make_job, folders):
    _, outside = folders
    cluster, _ = make_job()
    with tf.Session(cluster.target("ps", 0)) as session:
        assert session.run(tf.read_file(str(outside / "secret"))) == b"secret\n"


def test_on_loopback_nothing_need_be_named(make_job, tmp_path):
    cluster, _ = make_job()
    run_remotely(cluster, tf.write_file(str(tmp_path / "new"), "content"))
    assert (tmp_path / "new").read_text() == "content"


def test_where_others_reach_it_a_server_allows_what_it_names(tmp_path, authority, use):
    use(keys(authority))
    (tmp_path / "job").mkdir()
    server = tf.train.Server({"a": ["0.0.0.0:0"]}, allowed_folders=[str(tmp_path / "job")])
    target = server.target.replace("0.0.0.0", "127.0.0.1")
    try:
        with tf.Session(target) as session:
            session.run(tf.write_file(str(tmp_path / "job/new"), "content"))
            with pytest.raises(errors.PermissionDeniedError, match=str(tmp_path / "job")):
                session.run(tf.write_file(str(tmp_path / "new"), "content"))
    finally:
        server.stop()
    assert os.listdir(tmp_path / "job") == ["new"] and not (tmp_path / "new").exists()


def test_a_server_runs_no_python_for_clients_elsewhere(make_job):
    called: list[Any] = []

    def function(value: Any) -> Any:
        called.append(value)
        return value

    cluster, trainer = make_job()
    with tf.device("/job:ps/task:0"):
        result = tf.py_func(function, [1.0], tf.float32)
        hidden = tf.cond(tf.random_uniform([]) < 2, lambda: result * 2, lambda: result)
        elements = tf.data.Dataset.range(3).map(lambda x: tf.py_func(function, [x], tf.int64))
        mapped = tf.data.make_initializable_iterator(elements).initializer
        within = _first(tf.data.Dataset.range(3).flat_map(lambda _: elements))
    for fetch in (result, hidden, mapped, within):
        with pytest.raises(errors.PermissionDeniedError, match="PyFunc.*Python function"):
            run_remotely(cluster, fetch)
        with pytest.raises(errors.PermissionDeniedError, match="PyFunc.*Python function"):
            run_remotely(cluster, fetch, "worker")
    assert not called
    with tf.Session(cluster.target("ps", 0)) as session:  # in its process it may
        assert session.run(result) == 1 and called == [1]
    trainer.step()
