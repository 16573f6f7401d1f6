"""Parts of steps that go on in the thread that brings what they waited for."""

from __future__ import annotations

import threading

import pytest

from millrace.server.drivers.relay import MAX_HERE, Relay


@pytest.fixture
def elsewhere():
    return []


@pytest.fixture
def relay(elsewhere):
    return Relay(elsewhere.append)


def test_a_thread_that_does_not_deliver_goes_on_with_nothing(relay, elsewhere):
    relay.resume(lambda: pytest.fail("called here"))
    assert len(elsewhere) == 1


def test_what_is_set_free_goes_on_after_the_delivery_and_in_order(relay, elsewhere):
    story = []

    def action():
        relay.resume(lambda: (story.append("first"), relay.resume(lambda: story.append("third"))))
        relay.resume(lambda: story.append("second"))
        story.append("delivered")

    relay.deliver(action)
    assert story == ["delivered", "first", "second", "third"] and not elsewhere


def test_a_delivery_inside_of_another_leaves_the_going_on_to_that(relay):
    story = []
    relay.deliver(
        lambda: (
            relay.deliver(lambda: relay.resume(lambda: story.append("freed"))),
            story.append("inner delivery is over"),
        )
    )
    assert story == ["inner delivery is over", "freed"]


def test_a_delivery_ends_although_each_part_sets_another_free(relay, elsewhere):
    count = 0

    def again():
        nonlocal count
        count += 1
        relay.resume(again)

    relay.deliver(lambda: relay.resume(again))
    assert count == MAX_HERE and len(elsewhere) == 1


def test_when_one_fails_the_others_go_on_elsewhere(relay, elsewhere):
    def fail():
        raise RuntimeError("broken")

    def action():
        relay.resume(fail)
        relay.resume(lambda: None)

    with pytest.raises(RuntimeError, match="broken"):
        relay.deliver(action)
    assert len(elsewhere) == 1
    relay.resume(lambda: None)
    assert len(elsewhere) == 2  # the thread does not deliver any more


def test_threads_do_not_go_on_with_each_others_parts(relay, elsewhere):
    def action():
        other = threading.Thread(target=relay.resume, args=(lambda: None,))
        other.start()
        other.join(60)

    relay.deliver(action)
    assert len(elsewhere) == 1


def test_a_part_that_has_a_way_of_its_own_goes_it_also_when_there_are_too_many(relay, elsewhere):
    own = []

    def free():
        for _ in range(MAX_HERE + 2):
            relay.resume(lambda: None, elsewhere=own.append)

    relay.deliver(free)
    assert len(own) == 2 and not elsewhere
    relay.resume(lambda: None, elsewhere=own.append)
    assert len(own) == 3 and not elsewhere
