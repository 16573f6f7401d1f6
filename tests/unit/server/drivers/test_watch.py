"""Whom a server looks after, and what it does about silence: with channels that are made up."""

import time
import types

import pytest

from millrace.core import errors
from millrace.protocol.heartbeat import Settings
from millrace.rpc.channel import Traffic
from millrace.server.drivers import watch as watch_module
from millrace.server.drivers.watch import Watch, settings_from


class FakeChannel:
    def __init__(self):
        self.peer = "/job:ps/replica:0/task:0"
        self.traffic = Traffic()
        self.drained = 0
        self.is_handling = False
        self.sent = 0

    def send(self, message):
        self.sent += 1
        self.traffic.messages_sent += 1


class Rig:
    """A watch whose clock and threads are the test's."""

    def __init__(self, monkeypatch):
        self.now = 100.0
        self.needed = set()
        self.channels = {f"host{i}:1": FakeChannel() for i in range(200)}
        self.looked_at = []
        self.reachable = False
        self.lost = {}
        self.pauses = 0
        # Not in the module `time` itself, which other threads of this process use.
        clock = {**vars(time), "monotonic": lambda: self.now}
        monkeypatch.setattr(watch_module, "time", types.SimpleNamespace(**clock))
        monkeypatch.setattr(watch_module, "start_thread", lambda call, name, *args: call(*args))
        self.watch = Watch(
            "/job:worker/replica:0/task:0",
            Settings(),
            needed=lambda: self.needed,
            channels=self.channels_to,
            probe=lambda address, seconds: self.reachable,
            lose=self.lost.__setitem__,
            on_pause=self.pause,
        )

    def channels_to(self, address):
        self.looked_at.append(address)
        return [self.channels[address]]

    def pause(self):
        self.pauses += 1

    def look(self, seconds=0.5):
        self.now += seconds
        self.watch.look()


@pytest.fixture
def rig(monkeypatch):
    return Rig(monkeypatch)


def test_tasks_that_no_step_needs_are_not_looked_at(rig):
    rig.needed = {"host7:1"}
    for _ in range(3):
        rig.look()
    assert set(rig.looked_at) == {"host7:1"}
    assert sum(channel.sent for channel in rig.channels.values()) == rig.channels["host7:1"].sent


def test_a_silent_task_is_pinged_and_lost_with_a_reason(rig):
    rig.needed = {"host0:1"}
    for _ in range(8):
        rig.look()
    assert rig.channels["host0:1"].sent >= 2
    reason = rig.lost["host0:1"]
    assert "host0:1" in reason and "Nothing was heard for" in reason and "Check" in reason


@pytest.mark.parametrize("sign", ["bytes received", "bytes taken", "busy with a message"])
def test_a_sign_of_life_is_enough(rig, sign):
    rig.needed = {"host0:1"}
    channel = rig.channels["host0:1"]
    for _ in range(20):
        if sign == "bytes received":
            channel.traffic.bytes_received += 1
        elif sign == "bytes taken":
            channel.drained += 1
        else:
            channel.is_handling = True
        rig.look()
    assert not rig.lost


def test_a_task_whose_thread_is_busy_says_itself_that_it_is_there(rig):
    rig.needed = {"host0:1"}
    channel = rig.channels["host0:1"]
    channel.is_handling = True
    rig.look()
    before = channel.sent
    for _ in range(4):
        rig.look()
    assert channel.sent == before + 4


def test_a_task_that_accepts_connections_is_waited_for(rig):
    rig.needed, rig.reachable = {"host0:1"}, True
    for _ in range(40):
        rig.look()
    assert not rig.lost
    for _ in range(100):
        rig.look()
    assert rig.lost


def test_the_watch_notices_that_its_own_process_was_stopped(rig):
    rig.look()
    assert not rig.pauses
    rig.look(30.0)
    assert rig.pauses == 1
    assert not rig.lost


def test_times_come_from_the_environment():
    assert settings_from({}) == Settings(2.0, 60.0)
    found = settings_from({"MILLRACE_HEARTBEAT_SECONDS": "8", "MILLRACE_BUSY_SECONDS": "600"})
    assert (found, found.interval) == (Settings(8.0, 600.0), 2.0)
    for wrong in ("0", "-1", "soon", "nan"):
        with pytest.raises(errors.InvalidArgumentError, match="MILLRACE_BUSY_SECONDS"):
            settings_from({"MILLRACE_BUSY_SECONDS": wrong})
