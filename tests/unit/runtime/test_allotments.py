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
