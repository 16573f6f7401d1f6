"""Staging areas, event by event. The texts of errors are TensorFlow 2.21's."""

import pytest

from millrace.core import errors
from millrace.protocol.staging import Get, MapStaging, OrderedStaging, Put


def submitted(area, attempt):
    area.submit(attempt)
    return attempt


def a_map(ordered=True, capacity=0, memory_limit=0):
    return MapStaging(capacity, memory_limit, is_ordered=ordered, size_of=lambda value: 1)


def put(area, key, **places):
    indices = [int(name[1:]) for name in places]
    return submitted(area, Put(list(places.values()), len(indices), key, indices, width=2))


def test_tuples_come_out_in_order_and_a_peek_leaves_them():
    area = OrderedStaging(0, 0)
    for value in (1, 2):
        submitted(area, Put([value], 8))
    assert submitted(area, Get(1, removes=False)).result() == [2]
    assert submitted(area, Get()).result() == [1]
    assert len(area) == 1


def test_a_put_waits_for_room_and_a_get_for_something_to_get():
    area = OrderedStaging(capacity=1, memory_limit=0)
    waiting_get = submitted(area, Get())
    first, second, third = (submitted(area, Put([i], 8)) for i in range(3))
    assert waiting_get.result() == [0]
    assert first.done and second.done and not third.done
    assert submitted(area, Get()).result() == [1]
    assert third.done


def test_memory_is_limited_as_well():
    area = OrderedStaging(capacity=0, memory_limit=10)
    assert submitted(area, Put([1], 8)).done
    assert not submitted(area, Put([2], 8)).done
    with pytest.raises(
        errors.ResourceExhaustedError,
        match="combined size of '80' bytes into Staging Area with a memory limit of '10'",
    ):
        submitted(area, Put([3], 80)).result()


def test_clearing_drops_everything_and_makes_room():
    area = OrderedStaging(capacity=1, memory_limit=0)
    submitted(area, Put([1], 8))
    waiting = submitted(area, Put([2], 8))
    assert area.clear() == [waiting]
    assert len(area) == 1


def test_cancelled_attempts_leave_no_trace():
    area = OrderedStaging(capacity=1, memory_limit=0)
    submitted(area, Put([1], 8))
    waiting = submitted(area, Put([2], 8))
    area.cancel(waiting)
    with pytest.raises(errors.CancelledError, match="Put operation was cancelled"):
        waiting.result()
    assert submitted(area, Get()).result() == [1]
    assert len(area) == 0


def test_a_map_entry_is_there_when_all_its_places_are_filled():
    area = a_map()
    put(area, 3, _0="f")
    assert (len(area), area.incomplete_size) == (0, 1)
    waiting = submitted(area, Get(3, [0, 1]))
    assert not waiting.done
    put(area, 3, _1="i")
    assert waiting.result() == ["f", "i"]
    assert (len(area), area.incomplete_size) == (0, 0)


def test_a_place_is_filled_once():
    area = a_map()
    put(area, 3, _0="f")
    with pytest.raises(
        errors.InvalidArgumentError,
        match="The tensor for index '0' for key '3' was already initialized '2'",
    ):
        put(area, 3, _0="g").result()


def test_places_of_an_entry_can_be_taken_one_by_one():
    area = a_map()
    put(area, 3, _0="f", _1="i")
    assert submitted(area, Get(3, [1])).result() == ["i"]
    with pytest.raises(
        errors.InvalidArgumentError, match="index '1' for key '3' has already been removed"
    ):
        submitted(area, Get(3, [1])).result()
    assert submitted(area, Get(None, [0])).result() == (3, ["f"])
    assert len(area) == 0


def test_the_next_entry_of_an_ordered_map_has_the_smallest_key():
    area = a_map()
    for key in (5, 1, 3):
        put(area, key, _0=key, _1=-key)
    assert submitted(area, Get(None, [0, 1])).result() == (1, [1, -1])
    assert submitted(area, Get(5, [0], removes=False)).result() == [5]
    assert len(area) == 2
