"""Datasets and iterators of a pipeline, without a graph: order, errors, threads, saved states."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from millrace.core import dtypes, errors
from millrace.core.aligned import ALIGNMENT
from millrace.core.tensor_shape import TensorShape, scalar, unknown_shape
from millrace.data.pipeline import (
    batching,
    cache,
    csv_files,
    files,
    interleaving,
    mapping,
    order,
    shuffle,
    sources,
    state_tensors,
    workers,
)
from millrace.data.pipeline.dataset import Context, Dataset, EndOfSequence
from millrace.data.pipeline.element import components
from millrace.data.tfrecord import TFRecordWriter

INT = [dtypes.int64]
ANY = [unknown_shape()]


def numbers(count: int) -> Dataset:
    return sources.Range(range(count), INT, [scalar()])


def values(dataset: Dataset, context: Context | None = None) -> list[Any]:
    """The first components of all elements."""
    iterator = dataset.iterator(context or Context())
    found = []
    while True:
        try:
            found.append(components(iterator.next())[0])
        except EndOfSequence:
            iterator.close()
            return [v.tolist() if hasattr(v, "tolist") else v for v in found]


def mapped(source: Dataset, call: Callable[[Any], Any], **options: Any) -> Dataset:
    return mapping.Map(source, lambda args: [np.asarray(call(args[0]))], INT, ANY, **options)


def fails_at_three(x: Any) -> Any:
    if x == 3:
        raise ValueError("three")
    return x


PIPELINES: dict[str, Callable[[], Dataset]] = {
    "range": lambda: numbers(20),
    "slices": lambda: sources.TensorSlices([np.arange(20)], INT, [scalar()]),
    "take and skip": lambda: order.Take(order.Skip(numbers(40), 7), 20),
    "shard": lambda: order.Shard(numbers(60), 3, 1),
    "repeat": lambda: order.Repeat(numbers(7), 3),
    "concatenate": lambda: order.Concatenate([numbers(5), numbers(15)], INT, [scalar()]),
    "zip": lambda: order.Zip([numbers(20), numbers(30)], INT * 2, [scalar()] * 2),
    "shuffle": lambda: shuffle.Shuffle(numbers(20), 6, sources.Seeds(1, 2, True)),
    "shuffle and repeat": lambda: shuffle.Shuffle(numbers(7), 4, sources.Seeds(1, 2, True), 3),
    "batch": lambda: batching.Batch(numbers(50), 3, False, INT, [TensorShape([None])]),
    "unbatch": lambda: batching.Unbatch(
        batching.Batch(numbers(20), 6, False, INT, [TensorShape([None])]), INT, [scalar()]
    ),
    "map": lambda: mapped(numbers(20), lambda x: x * 2),
    "parallel map": lambda: mapped(numbers(20), lambda x: x * 2, parallel_calls=4),
    "filter": lambda: mapping.Filter(numbers(40), lambda a: [a[0] % 2 == 0], INT, [scalar()]),
    "scan": lambda: mapping.Scan(
        numbers(20), lambda a: [a[0] + a[1], a[0]], [np.int64(0)], INT, [scalar()]
    ),
    "cache": lambda: order.Repeat(cache.MemoryCache(numbers(7)), 3),
    "prefetch": lambda: workers.Prefetch(numbers(20), 5),
    "interleave": lambda: interleaving.Interleave(
        numbers(7), lambda a: [numbers(int(a[0]))], INT, [scalar()], cycle_length=3, block_length=2
    ),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_a_restored_iterator_goes_on_where_the_saved_one_was(name: str) -> None:
    first, second = Context(), Context()
    dataset = PIPELINES[name]()
    iterator = dataset.iterator(first)
    for _ in range(5):
        iterator.next()
    data = state_tensors.packed(iterator.save())
    expected = [np.asarray(components(iterator.next())[0]).tolist() for _ in range(6)]
    other = dataset.iterator(second)
    other.restore(state_tensors.unpacked(data))
    found = [np.asarray(components(other.next())[0]).tolist() for _ in range(6)]
    for context in (first, second):
        context.close()
    assert found == expected


def test_an_error_behind_elements_is_raised_in_its_place() -> None:
    iterator = mapped(numbers(6), fails_at_three).iterator(Context())
    assert [int(components(e)[0]) for e in iterator.take(6)] == [0, 1, 2]
    with pytest.raises(ValueError, match="three"):
        iterator.take(6)
    assert [int(components(e)[0]) for e in iterator.take(6)] == [4, 5]


@pytest.mark.parametrize("calls", [0, 3])
def test_ignored_errors_leave_only_their_elements_out(calls: int) -> None:
    context = Context()
    dataset = mapping.IgnoreErrors(mapped(numbers(6), fails_at_three, parallel_calls=calls))
    assert values(dataset, context) == [0, 1, 2, 4, 5]
    context.close()


def test_a_batch_is_aligned_memory() -> None:
    rows = np.arange(60.0).reshape(10, 6)
    table = sources.TensorSlices([rows], [dtypes.float64], [TensorShape([6])])
    mixed = shuffle.Shuffle(table, 10, sources.Seeds(3, 4, True))
    batch = batching.Batch(mixed, 5, False, [dtypes.float64], [TensorShape([None, 6])])
    (found,) = components(batch.iterator(Context()).next())
    assert found.__array_interface__["data"][0] % ALIGNMENT == 0
    assert {tuple(row) for row in found} <= {tuple(row) for row in rows}


def test_threads_end_when_the_pipeline_is_closed() -> None:
    before = set(threading.enumerate())
    context = Context()
    endless = order.Repeat(numbers(3), -1)
    dataset = workers.Prefetch(mapped(endless, lambda x: x, parallel_calls=3), 4)
    iterator = dataset.iterator(context)
    iterator.next()
    started = [t for t in threading.enumerate() if t not in before]
    assert started
    context.close()
    for thread in started:
        thread.join(10)
    assert not any(thread.is_alive() for thread in started)


def test_who_waits_for_a_closed_pipeline_is_told() -> None:
    gate = threading.Event()
    context = Context()
    dataset = workers.Prefetch(mapped(numbers(3), lambda x: gate.wait(20) and x), 1)
    iterator = dataset.iterator(context)
    told: list[BaseException] = []

    def pull() -> None:
        try:
            iterator.next()
        except errors.CancelledError as error:
            told.append(error)

    puller = threading.Thread(target=pull)
    puller.start()
    context.close()
    puller.join(10)
    gate.set()
    assert len(told) == 1


def test_a_damaged_record_is_named_and_the_next_file_follows(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    for path in (good, bad):
        with TFRecordWriter(str(path)) as writer:
            for record in (b"one", b"two", b"three"):
                writer.write(record)
    content = bytearray(bad.read_bytes())
    content[-6] ^= 1
    bad.write_bytes(bytes(content))
    dataset = files.TFRecords([str(bad), str(tmp_path / "missing"), str(good)])
    iterator = dataset.iterator(Context())
    assert [components(e)[0] for e in iterator.take(10)] == [b"one", b"two"]
    with pytest.raises(errors.DataLossError, match=r"bad'.*record 2 of the file"):
        iterator.take(10)
    with pytest.raises(errors.NotFoundError, match="missing"):
        iterator.take(10)
    assert [components(e)[0] for e in iterator.take(10)] == [b"one", b"two", b"three"]
    assert iterator.take(10) == []


def test_lines_are_the_same_however_the_file_is_cut_into_blocks(tmp_path: Path) -> None:
    lines = [b"x" * (i % 70) for i in range(20000)]
    path = tmp_path / "lines"
    path.write_bytes(b"\n".join(lines))
    iterator = files.TextLines([str(path)]).iterator(Context())
    found = []
    while elements := iterator.take(1000):
        found += [components(e)[0] for e in elements]
    assert found == lines


def test_a_quoted_line_break_across_blocks_is_one_field(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = [f'{i},"line {i}\nand another ""one"""' for i in range(20000)]
    path.write_text("\n".join(rows) + "\n")
    options = csv_files.CsvOptions(False, ",", True, "", None)
    types = [dtypes.int64, dtypes.string]
    defaults = [np.zeros(0, np.int64), np.zeros(0, object)]
    dataset = csv_files.CsvFiles([str(path)], "", options, defaults, types, [scalar()] * 2)
    iterator = dataset.iterator(Context())
    found = []
    while elements := iterator.take(500):
        found += [components(e) for e in elements]
    assert len(found) == 20000
    assert found[12345] == (12345, b'line 12345\nand another "one"')


def test_a_file_cache_is_used_only_when_it_is_whole(tmp_path: Path) -> None:
    made: list[int] = []

    def note(x: Any) -> Any:
        made.append(int(x))
        return x

    dataset = cache.FileCache(mapped(numbers(3), note), str(tmp_path / "c"))
    half = dataset.iterator(Context())
    half.next()
    half.close()
    assert values(dataset) == [0, 1, 2]
    assert values(dataset) == [0, 1, 2]
    assert made == [0, 0, 1, 2]


def test_a_state_that_is_damaged_is_data_loss() -> None:
    data = state_tensors.packed({"a": [1, b"x", None, np.arange(3)], "b": 2.5, "c": True})
    assert state_tensors.unpacked(data)["a"][1] == b"x"
    for cut in range(len(data) - 1):
        with pytest.raises(errors.DataLossError):
            state_tensors.unpacked(data[:cut])
    with pytest.raises(errors.UnimplementedError):
        state_tensors.packed({"a": object()})
