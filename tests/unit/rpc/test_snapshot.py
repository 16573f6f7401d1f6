"""Boards: what is published is what is read, whole, for as long as it is held."""

import gc
import os
import subprocess
import sys

import numpy as np
import pytest

from millrace.compiler.xla import jax
from millrace.rpc.message import layout_of
from millrace.rpc.snapshot import CELLS_EACH, Location, Snapshot, SnapshotReader

SHAPES = [(100, 7), (), (13,)]


def values(number):
    return [np.full(shape, number, np.float32) for shape in SHAPES]


KINDS = [(value.dtype, value.shape) for value in values(0)]
LAYOUT = layout_of(values(0))


@pytest.fixture
def snapshot():
    made = Snapshot(KINDS, *LAYOUT)
    yield made
    made.close()


def reader_of(snapshot):
    return SnapshotReader(os.getpid(), snapshot.admit(), KINDS, LAYOUT)


def number_of(arrays):
    """The one number that all the arrays are full of."""
    (found,) = {float(x) for array in arrays for x in np.unique(array)}
    return found


def test_nothing_is_read_before_something_is_published(snapshot):
    assert reader_of(snapshot).take() is None


def test_the_newest_is_read_aligned_and_in_its_shape(snapshot):
    reader = reader_of(snapshot)
    for number in (1, 2, 3):
        assert snapshot.publish(values(number))
        found = reader.take()
        assert number_of(found) == number
        assert [(a.dtype, a.shape) for a in found] == KINDS
        assert all(a.ctypes.data % 64 == 0 for a in found)


def test_what_is_held_stays_as_it_is_whatever_is_published_then(snapshot):
    one, other = reader_of(snapshot), reader_of(snapshot)
    snapshot.publish(values(1))
    held = one.take()[0][5:9]
    for number in range(2, 50):
        snapshot.publish(values(number))
        assert number_of(other.take()) == number
        assert np.all(held == 1)
    del held
    gc.collect()


def test_what_xla_holds_stays_as_it_is(snapshot):
    reader = reader_of(snapshot)
    snapshot.publish(values(1))
    held = jax.device_put(reader.take()[0])
    for number in range(2, 20):
        snapshot.publish(values(number))
    assert number_of([held]) == 1


def test_pages_that_nobody_uses_are_used_again(snapshot):
    reader = reader_of(snapshot)
    for number in range(100):
        snapshot.publish(values(number))
        assert number_of(reader.take()) == number
    assert len(snapshot._pages) <= 3


def test_a_reader_that_holds_much_is_refused_and_keeps_only_a_few_pages(snapshot):
    reader, other = reader_of(snapshot), reader_of(snapshot)
    held = []
    for number in range(CELLS_EACH):
        assert snapshot.publish(values(number))
        held.append(reader.take())
    snapshot.publish(values(9))
    assert reader.take() is None
    assert [number_of(each) for each in held] == list(range(CELLS_EACH))
    assert number_of(other.take()) == 9
    held.pop()
    assert number_of(reader.take()) == 9


def test_nothing_is_published_when_every_page_is_used(snapshot):
    reader = reader_of(snapshot)
    snapshot._control[64:128] = bytes(range(1, 65))  # as a reader would who means no good
    published = [snapshot.publish(values(number)) for number in range(8)]
    assert False in published and len(snapshot._pages) <= 4
    assert reader.take() is None


def test_the_pages_of_a_reader_that_is_gone_are_free(snapshot):
    location = snapshot.admit()
    reader = SnapshotReader(os.getpid(), location, KINDS, LAYOUT)
    held = []
    for number in range(3):
        snapshot.publish(values(number))
        held.append(reader.take())
    snapshot.dismiss(location)
    other = reader_of(snapshot)
    for number in range(10):
        assert snapshot.publish(values(number))
        assert number_of(other.take()) == number
    assert len(snapshot._pages) <= 4


def test_withdrawn_values_are_not_read(snapshot):
    reader = reader_of(snapshot)
    snapshot.publish(values(1))
    snapshot.withdraw()
    assert reader.take() is None and not reader.is_over
    snapshot.publish(values(2))
    assert number_of(reader.take()) == 2


def test_a_board_that_is_closed_is_over_for_its_readers():
    snapshot = Snapshot(KINDS, *LAYOUT)
    reader = reader_of(snapshot)
    snapshot.publish(values(1))
    held = reader.take()
    snapshot.close()
    assert reader.is_over and reader.take() is None
    assert number_of(held) == 1


def test_it_is_known_whether_somebody_has_read(snapshot):
    reader = reader_of(snapshot)
    snapshot.publish(values(1))
    assert not snapshot.was_read()
    reader.take()
    assert snapshot.was_read() and not snapshot.was_read()


def test_there_are_places_for_many_readers_but_not_for_all(snapshot):
    locations = []
    while (location := snapshot.admit()) is not None:
        locations.append(location)
        assert len(locations) < 1000
    assert len(locations) >= 64
    cells = [c for p in locations for c in range(p.first_cell, p.first_cell + p.cells)]
    assert len(set(cells)) == len(cells)


@pytest.mark.parametrize(
    "data", [b"", b"x" * 12, Location(3, 0, 4).pack(), Location(3, 600, 4).pack()]
)
def test_bytes_that_tell_no_location_are_refused(data):
    with pytest.raises(ValueError, match="snapshot"):
        Location.unpack(data)


def test_a_file_that_is_no_snapshot_is_refused():
    with open(os.devnull) as file, pytest.raises(ValueError, match="shared memory"):
        SnapshotReader(os.getpid(), Location(file.fileno(), 64, 4), KINDS, LAYOUT)


READER = """
import sys
import numpy as np
from tests.unit.rpc.test_snapshot import KINDS, LAYOUT, number_of
from millrace.rpc.snapshot import Location, SnapshotReader
location = Location.unpack(bytes.fromhex(sys.argv[2]))
reader = SnapshotReader(int(sys.argv[1]), location, KINDS, LAYOUT)
print("ready", flush=True)
newest, held = -1.0, []
while newest < 3000:
    found = reader.take()
    if found is None:
        continue
    number = number_of(found)
    assert number >= newest, (number, newest)
    newest = number
    held = [*held[-1:], (number, found)]
    for was, arrays in held:
        assert number_of(arrays) == was
print("done")
"""


def test_another_process_never_reads_half_of_what_is_published(snapshot):
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", READER, str(os.getpid()), snapshot.admit().pack().hex()],
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for reader in readers:
        assert reader.stdout.readline() == "ready\n"
    number = 0
    while any(reader.poll() is None for reader in readers):
        number += 1
        snapshot.publish(values(number))
        assert number < 5_000_000
    for reader in readers:
        assert reader.communicate()[0] == "done\n" and reader.returncode == 0
