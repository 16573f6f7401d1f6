"""Memory shared between tasks: who may open it, when it is free, what happens without."""

import contextlib
import fcntl
import gc
import os
import subprocess
import sys

import numpy as np
import pytest

from millrace.compiler.xla import jax
from millrace.core.written import Written
from millrace.rpc import shared_memory
from millrace.rpc.shared_memory import MIN_BYTES, Incoming, Outgoing, Probe, can_share

SIZE = 4 * MIN_BYTES


@pytest.fixture
def outgoing():
    made = Outgoing()
    yield made
    made.close()


@pytest.fixture
def incoming():
    return Incoming(os.getpid())


def data(seed, size=SIZE):
    return np.random.RandomState(seed).bytes(size)


def place(outgoing, parts, size):
    """Places buffers one after the other."""
    arrays = [np.frombuffer(part, np.uint8) for part in parts]
    starts = [sum(len(part) for part in parts[:i]) for i in range(len(parts))]
    return outgoing.place(arrays, starts, size)


def test_what_is_placed_is_found_aligned(outgoing, incoming):
    parts = [data(1), data(2, 64)]
    number, descriptor = place(outgoing, parts, SIZE + 64)
    block = incoming.block(number, descriptor, SIZE + 64)
    assert bytes(block) == b"".join(parts)
    assert np.frombuffer(block, np.uint8).ctypes.data % 64 == 0


def test_a_segment_is_used_again_only_when_nothing_in_it_is_held(outgoing, incoming):
    first = place(outgoing, [data(1)], SIZE)
    held = np.frombuffer(incoming.block(*first, SIZE), np.uint8)[5:10].view(np.int8)
    second = place(outgoing, [data(2)], SIZE)
    assert second != first
    assert held.tobytes() == data(1)[5:10]
    del held
    assert place(outgoing, [data(3)], SIZE) == first


def test_an_array_that_xla_holds_keeps_its_segment(outgoing, incoming):
    first = place(outgoing, [data(1)], SIZE)
    view = np.frombuffer(incoming.block(*first, SIZE), np.uint8)
    held = jax.jit(lambda x: x)(view)
    del view
    gc.collect()
    for seed in range(3):
        place(outgoing, [data(seed + 5)], SIZE)
    assert np.asarray(held).tobytes() == data(1)


def test_small_blocks_travel_in_the_message(outgoing):
    assert place(outgoing, [data(1, 100)], 100) is None


def test_no_more_is_held_than_the_limit_allows(incoming):
    outgoing = Outgoing(limit=2 * SIZE)
    places = [place(outgoing, [data(i)], SIZE) for i in range(2)]
    held = [incoming.block(*place, SIZE) for place in places]
    assert place(outgoing, [data(3)], SIZE) is None
    del held[0]
    assert place(outgoing, [data(3)], SIZE) == places[0]
    outgoing.close()


def test_segments_of_sizes_that_are_not_wanted_any_more_make_room():
    outgoing = Outgoing(limit=32 * SIZE)
    incoming = Incoming(os.getpid())
    for size in (4 * SIZE, 8 * SIZE, 16 * SIZE, 30 * SIZE):
        number, descriptor = place(outgoing, [data(1, size)], size)
        incoming.block(number, descriptor, size)
    assert outgoing.held_bytes <= 32 * SIZE
    outgoing.close()


def open_segments():
    """The descriptors of this process that are memory for messages, and which memory each is.

    Not of all files: threads of earlier tests may open and close sockets meanwhile.
    """
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # It was closed meanwhile.
            if "/memfd:" in os.readlink(f"/proc/self/fd/{number}"):
                found.add((number, os.fstat(int(number)).st_ino))
    return found


def test_without_memory_blocks_travel_in_the_message(outgoing, monkeypatch):
    def none_left(descriptor, offset, size):
        raise OSError("No space left")

    monkeypatch.setattr(os, "posix_fallocate", none_left)
    before = open_segments()
    assert place(outgoing, [data(1)], SIZE) is None
    assert open_segments() <= before


def test_nothing_is_left_open():
    before = open_segments()
    outgoing, incoming = Outgoing(), Incoming(os.getpid())
    placed = place(outgoing, [data(1)], SIZE)
    held = incoming.block(*placed, SIZE)
    assert open_segments() - before
    outgoing.close()
    assert bytes(held) == data(1)  # The memory stays as long as somebody uses it.
    assert place(outgoing, [data(1)], SIZE) is None
    del held, incoming
    assert open_segments() <= before


def test_a_block_that_is_larger_than_its_segment_is_refused(outgoing, incoming):
    placed = place(outgoing, [data(1)], SIZE)
    with pytest.raises(ValueError, match="cannot hold"):
        incoming.block(*placed, 1 << 30)


def test_only_segments_of_tasks_are_mapped(incoming, tmp_path):
    path = tmp_path / "secret"
    path.write_bytes(data(1))
    with open(path, "r+b") as file, pytest.raises(ValueError, match="no shared memory"):
        incoming.block(1, file.fileno(), 100)


def test_memory_that_might_shrink_is_not_mapped(incoming):
    descriptor = os.memfd_create("millrace")
    os.ftruncate(descriptor, SIZE)
    try:
        with pytest.raises((ValueError, OSError), match="shrink|Invalid"):
            incoming.block(1, descriptor, 100)
    finally:
        os.close(descriptor)


def test_a_segment_cannot_shrink(outgoing):
    _, descriptor = place(outgoing, [data(1)], SIZE)
    assert fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK
    with pytest.raises(PermissionError):
        os.ftruncate(descriptor, 0)


def test_an_offer_is_taken_by_who_can_read_it():
    probe = Probe()
    offer = probe.offer()
    assert can_share(offer) == os.getpid()
    assert can_share({**offer, "token": "00" * 32}) is None
    assert can_share({**offer, "process": 2**22 + 5}) is None
    assert can_share({**offer, "file": 10_000}) is None
    for nonsense in (None, {}, [], {"process": "x"}, {**offer, "token": 5}):
        assert can_share(nonsense) is None
    probe.close()
    assert can_share(offer) is None


def test_another_process_reads_what_is_shared(outgoing):
    placed = place(outgoing, [data(1)], SIZE)
    code = (
        "import sys\n"
        "from millrace.rpc.shared_memory import Incoming\n"
        "numbers = [int(text) for text in sys.argv[1:]]\n"
        f"block = Incoming(numbers[0]).block(*numbers[1:], {SIZE})\n"
        "sys.stdout.buffer.write(block)\n"
        "sys.stdout.flush()\n"
        "del block\n"
    )
    arguments = [str(number) for number in (os.getpid(), *placed)]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, timeout=240
    )
    assert done.stdout == data(1), done.stderr
    # It has let go of what it held.
    assert place(outgoing, [data(2)], SIZE) == placed
    assert shared_memory.IS_SUPPORTED


def test_an_array_that_is_made_in_its_place_is_found_there(outgoing, incoming):
    made = Written((SIZE // 4,), np.float32, lambda place: place.fill(7))
    number, descriptor = outgoing.place([np.ones(16, np.float32), made], [0, 64], SIZE + 64)
    block = np.frombuffer(incoming.block(number, descriptor, SIZE + 64), np.float32)
    assert block[:16].tolist() == [1] * 16
    assert len(block) == SIZE // 4 + 16 and (block[16:] == 7).all()


def test_a_segment_in_which_nothing_could_be_made_is_free(outgoing):
    def fail(place):
        raise ValueError("nothing to write")

    with pytest.raises(ValueError, match="nothing to write"):
        outgoing.place([Written((SIZE,), np.uint8, fail)], [0], SIZE)
    held = outgoing.held_bytes
    assert place(outgoing, [data(1)], SIZE) is not None
    assert outgoing.held_bytes == held
