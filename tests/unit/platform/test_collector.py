"""Full collections in a process that holds large graphs of remote clients."""

import gc
import weakref

import pytest

from millrace.platform import collector


class Ring:
    def __init__(self) -> None:
        self.me = self


@pytest.fixture
def heap(monkeypatch):
    """A heap that looks large or small as the test wants, and its clock."""
    made = collector.LargeHeap(lambda: made.now)
    made.now = 0.0
    made.blocks = 1_000
    monkeypatch.setattr(collector.sys, "getallocatedblocks", lambda: made.blocks)
    others, gc.callbacks[:] = gc.callbacks[:], []
    yield made
    gc.callbacks[:] = others
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def old() -> int:
    return len(gc.get_objects(generation=2))


def test_what_a_collection_has_kept_is_not_looked_at_again_while_the_heap_is_large(heap):
    heap.hold()
    heap.blocks += 2 * collector.LARGE_BLOCKS
    kept = [[] for _ in range(100_000)]
    gc.collect()
    assert old() < 1_000
    more = [[] for _ in range(5_000)]
    gc.collect(1)
    assert 5_000 <= old() < 10_000
    del kept, more


def test_garbage_of_a_large_heap_is_collected_unless_it_was_kept_before(heap):
    heap.hold()
    heap.blocks += 2 * collector.LARGE_BLOCKS
    gc.collect()
    ring = weakref.ref(Ring())
    gc.collect()
    assert ring() is None


def test_what_was_kept_is_collected_once_the_heap_is_small_and_a_minute_has_passed(heap):
    heap.hold()
    heap.blocks += 2 * collector.LARGE_BLOCKS
    ring = Ring()
    gc.collect()
    ring = weakref.ref(ring)
    heap.blocks -= 2 * collector.LARGE_BLOCKS
    gc.collect()
    assert ring() is not None
    heap.now += 2 * collector.THAW_SECONDS
    gc.collect()
    assert ring() is None


def test_or_at_once_when_no_client_has_a_graph_any_more(heap):
    heap.hold()
    heap.blocks += 2 * collector.LARGE_BLOCKS
    ring = Ring()
    gc.collect()
    ring = weakref.ref(ring)
    heap.release()
    gc.collect()
    assert ring() is None


def test_nothing_is_kept_in_a_process_without_clients(heap):
    heap.hold()
    heap.release()
    gc.collect()
    gc.collect()
    heap.blocks += 2 * collector.LARGE_BLOCKS
    ring = Ring()
    gc.collect()
    ring = weakref.ref(ring)
    gc.collect()
    assert ring() is None
