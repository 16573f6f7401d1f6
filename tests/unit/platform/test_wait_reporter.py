"""A wait that lasts says so: after five seconds, and every ten after that."""

import logging

from millrace.platform.wait_reporter import WaitReporter


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_it_is_silent_for_five_seconds_and_then_speaks_every_ten(caplog):
    clock = Clock()
    reporter = WaitReporter("A session has waited", clock)
    spoken = []
    with caplog.at_level(logging.WARNING):
        for second in range(30):
            clock.now = 100.0 + second
            before = len(caplog.records)
            reporter.tell(lambda: "/job:ps/task:0")
            if len(caplog.records) > before:
                spoken.append(second)
    assert spoken == [5, 15, 25]
    assert "A session has waited 5 s for /job:ps/task:0 (since " in caplog.text
    assert "). Check that it runs, can be reached, and what it logs." in caplog.text


def test_who_knows_what_to_check_says_it_alone(caplog):
    clock = Clock()
    reporter = WaitReporter("A step has waited", clock)
    clock.now += 5
    reporter.tell(lambda: "a gradient. Check that worker 1 runs")
    assert caplog.messages[0].count("Check") == 1


def test_it_knows_how_long_it_may_be_silent():
    clock = Clock()
    reporter = WaitReporter("x", clock)
    assert reporter.seconds_left() == 5.0
    clock.now += 3
    assert reporter.seconds_left() == 2.0
    clock.now += 9
    assert reporter.seconds_left() == 0.0


def test_something_that_happens_starts_it_again(caplog):
    clock = Clock()
    reporter = WaitReporter("x", clock)
    clock.now += 4.9
    reporter.restart()
    clock.now += 4.9
    reporter.tell(lambda: "nothing")
    assert not caplog.records


def test_a_wait_may_have_begun_before_it_is_told_of(caplog):
    clock = Clock()
    reporter = WaitReporter("A step has waited", clock, since=93.0)
    assert reporter.seconds_left() == 0
    reporter.tell(lambda: "a value")
    assert "A step has waited 7 s for a value" in caplog.text
