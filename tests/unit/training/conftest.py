"""What tests of training share: a clock that only sleeping moves, log lines."""

import logging

import pytest

from millrace.training.sessions.waiting import Clock


class FakeClock:
    """Time passes when somebody sleeps, and by hand."""

    def __init__(self):
        self.time = 1000.0
        self.sleeps = []
        #: Called after each sleep.
        self.on_sleep = lambda: None
        self.clock = Clock(now=lambda: self.time, sleep=self.sleep, wall=lambda: self.time)

    def sleep(self, seconds):
        assert seconds > 0
        assert len(self.sleeps) < 10_000, "this wait does not end"
        self.sleeps.append(seconds)
        self.time += seconds
        self.on_sleep()


@pytest.fixture
def fake_clock():
    return FakeClock()


@pytest.fixture
def log_lines():
    """The lines that Millrace logs, as (level, text)."""
    lines = []

    class Listener(logging.Handler):
        def emit(self, record):
            lines.append((record.levelname, record.getMessage()))

    logger = logging.getLogger("millrace")
    listener, level = Listener(), logger.level
    logger.addHandler(listener)
    logger.setLevel(logging.INFO)
    yield lines
    logger.removeHandler(listener)
    logger.setLevel(level)


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch):
    """Checkpoints of tests need not survive a loss of power."""
    monkeypatch.setenv("MILLRACE_FSYNC", "0")
