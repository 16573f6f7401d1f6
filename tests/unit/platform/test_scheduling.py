"""How a thread that waits for other tasks is scheduled."""

import os
import threading

from millrace.platform.scheduling import do_not_interrupt


def policies(before: int) -> list[int]:
    """What a thread of its own has before and after."""
    found: list[int] = []

    def look() -> None:
        os.sched_setscheduler(0, before, os.sched_param(0))
        found.append(os.sched_getscheduler(0))
        do_not_interrupt()
        found.append(os.sched_getscheduler(0))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    return found


def test_a_plain_thread_interrupts_nobody_any_more() -> None:
    assert policies(os.SCHED_OTHER) == [os.SCHED_OTHER, os.SCHED_BATCH]


def test_a_thread_that_somebody_gave_another_place_keeps_it() -> None:
    assert policies(os.SCHED_IDLE) == [os.SCHED_IDLE, os.SCHED_IDLE]


def test_other_threads_stay_as_they_are() -> None:
    before = os.sched_getscheduler(0)
    policies(os.SCHED_OTHER)
    assert os.sched_getscheduler(0) == before
