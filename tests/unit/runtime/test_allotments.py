"""How many steps of a client compute at a time, and who is next."""

import threading

from millrace.runtime import allotments
from millrace.runtime.allotments import Allotments

SECONDS = 60


def test_so_many_steps_of_a_client_compute_and_those_of_others_do_not_wait_for_them(until):
    shared = Allotments(2)
    order, go_on = [], threading.Event()
    begun = threading.Semaphore(0)

    def compute(number):
        with shared.of("greedy"):
            order.append(number)
            begun.release()
            assert go_on.wait(SECONDS)

    threads = []
    for number in range(6):
        threads.append(threading.Thread(target=compute, args=(number,), daemon=True))
        threads[-1].start()
        # One after the other, so that their order is known.
        until(lambda n=number: len(order) + _waiting(shared) == n + 1)
    assert order == [0, 1]
    with shared.of("modest"):
        assert len(order) == 2
    go_on.set()
    for thread in threads:
        thread.join(SECONDS)
    assert sorted(order) == list(range(6))
    assert not shared._computing and not shared._waiting


def test_actions_wait_without_a_thread_and_are_called_in_the_order_in_which_they_came():
    elsewhere, story = [], []
    shared = Allotments(1, elsewhere.append)
    for number in range(3):
        shared.run("client", lambda n=number: story.append((n, allotments.current() is not None)))
    shared.run("other", lambda: story.append("other"))
    assert not story and len(elsewhere) == 2 and _waiting(shared) == 2
    elsewhere.pop()()
    elsewhere.pop()()  # goes on with those whose turn is next
    assert story == ["other", (0, True), (1, True), (2, True)] and not elsewhere
    assert not shared._computing and not shared._waiting
    assert allotments.current() is None


def test_an_action_that_is_forgotten_while_it_waits_is_not_called():
    elsewhere, story = [], []
    shared = Allotments(1, elsewhere.append)
    actions = [lambda n=number: story.append(n) for number in range(3)]
    assert [shared.run("client", action) for action in actions] == [False, True, True]
    assert shared.forget("client", actions[1]) and not shared.forget("client", actions[1])
    assert not shared.forget("other", actions[2])
    elsewhere.pop()()
    assert story == [0, 2]
    assert not shared.forget("client", actions[2])  # Its turn has come.
    shared.run("client", actions[0])
    shared.run("client", actions[1])
    assert shared.forget("client", actions[1]) and not shared._waiting
    elsewhere.pop()()
    assert story == [0, 2, 0] and not shared._computing


def test_an_action_that_waits_for_another_one_of_its_client_does_not_block_it():
    elsewhere, story = [], []
    shared = Allotments(1, elsewhere.append)

    def wait():
        share = allotments.current()
        share.pause()
        elsewhere.pop()()  # what got a share meanwhile
        share.resume()
        story.append("has waited")

    shared.run("client", wait)
    shared.run("client", lambda: story.append("arrived"))
    elsewhere.pop()()
    assert story == ["arrived", "has waited"]
    assert not shared._computing and not shared._waiting


def test_a_thread_and_an_action_of_one_client_wait_in_one_line(until):
    elsewhere, story = [], []
    shared = Allotments(1, elsewhere.append)

    def compute():
        with shared.of("client"):
            story.append("thread")

    with shared.of("client"):
        shared.run("client", lambda: story.append("action"))
        thread = threading.Thread(target=compute, daemon=True)
        thread.start()
        until(lambda: _waiting(shared) == 2)
    elsewhere.pop()()
    thread.join(SECONDS)
    assert story == ["action", "thread"] and not elsewhere
    assert not shared._computing and not shared._waiting


def test_an_action_that_fails_leaves_its_share_to_the_next(caplog):
    elsewhere, story = [], []
    shared = Allotments(1, elsewhere.append)
    shared.run("client", lambda: 1 / 0)
    shared.run("client", lambda: story.append("next"))
    elsewhere.pop()()
    assert story == ["next"] and not shared._computing


def _waiting(shared):
    return sum(len(queue) for queue in list(shared._waiting.values()))


def test_a_step_that_waits_for_another_one_of_its_client_does_not_block_it():
    shared = Allotments(1)
    arrived = threading.Event()

    def wait():
        with shared.of("client"):
            share = allotments.current()
            share.pause()
            assert arrived.wait(SECONDS)
            share.resume()

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    with shared.of("client"):
        arrived.set()
    waiting.join(SECONDS)
    assert not waiting.is_alive()
    assert allotments.current() is None
