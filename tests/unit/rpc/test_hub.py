"""One thread reads many channels; what takes long on one keeps no other waiting."""

import socket
import threading

import pytest

from millrace.rpc import hub as hub_module
from millrace.rpc.hub import Hub
from millrace.rpc.message import Kind, Message

HOLD = ord("h")


class FakeChannel:
    """Messages of one byte each, which is their key; ``h`` is held until `go` is set."""

    def __init__(self):
        self._mine, self._theirs = socket.socketpair()
        self.handled = []
        self.threads = []
        self.go = threading.Event()
        self.is_held = threading.Event()
        self.at_once = 0
        self._here = 0
        self.has_more = False

    def send(self, text):
        self._theirs.send(text)

    def fileno(self):
        return self._mine.fileno()

    def read_message(self):
        try:
            data = self._mine.recv(1)
        except OSError:
            data = b""
        return Message(Kind.RUN, key=data[0]) if data else None

    def handle(self, message):
        self._here += 1
        self.at_once = max(self.at_once, self._here)
        if message.key == HOLD:
            self.is_held.set()
            assert self.go.wait(60)
        self.handled.append(chr(message.key))
        self.threads.append(threading.current_thread())
        self._here -= 1
        return True

    def read_one(self):
        message = self.read_message()
        return message is not None and self.handle(message)

    def close(self):
        self.go.set()
        self._mine.close()
        self._theirs.close()


@pytest.fixture
def hub(until):
    made = Hub("/job:test")
    yield made
    made.close()
    until(lambda: not made._threads, "a thread of the hub is left")


@pytest.fixture
def channels(hub):
    made = [FakeChannel() for _ in range(3)]
    for channel in made:
        assert hub.add(channel)
    yield made
    for channel in made:
        channel.close()


def test_one_thread_reads_all_channels(channels, until):
    for channel in channels:
        channel.send(b"abc")
    until(lambda: all(c.handled == ["a", "b", "c"] for c in channels))
    assert len({t for c in channels for t in c.threads}) == 1


def test_a_message_that_takes_long_for_the_first_time_is_noticed(hub, channels, until):
    one, other, _ = channels
    one.send(b"hx")
    assert one.is_held.wait(60)
    other.send(b"a")

    def served():
        hub.relieve()
        return other.handled

    until(served)
    assert one.handled == []
    one.go.set()
    until(lambda: one.handled == ["h", "x"])


def test_what_took_long_before_keeps_nobody_waiting_the_next_time(
    hub, channels, until, monkeypatch
):
    monkeypatch.setattr(hub_module, "_LONG", 0.0)
    one, other, _ = channels
    for round_ in range(5):
        one.go.clear()
        one.is_held.clear()
        one.send(b"h")
        assert one.is_held.wait(60)
        other.send(b"a")
        if round_ == 0:

            def served():
                hub.relieve()
                return other.handled

            until(served)
        else:
            until(lambda n=round_: len(other.handled) == n + 1)
        one.go.set()
        until(lambda n=round_: len(one.handled) == n + 1)
    assert hub._threads <= 3


def test_the_messages_of_one_channel_are_handled_one_after_the_other(
    hub, channels, until, monkeypatch
):
    monkeypatch.setattr(hub_module, "_LONG", 0.0)  # so that everything takes long
    text = [chr(ord("a") + i % 7) for i in range(300)]
    for channel in channels:
        channel.send("".join(text).encode())
    until(lambda: all(c.handled == text for c in channels))
    assert [c.at_once for c in channels] == [1, 1, 1]


def test_a_channel_that_ends_is_forgotten_and_the_others_go_on(hub, channels, until):
    one, other, _ = channels
    one._theirs.close()
    until(lambda: len(hub._watched) == 2)
    other.send(b"a")
    until(lambda: other.handled == ["a"])


def test_a_channel_that_is_closed_here_makes_room_for_one_of_its_number(hub, channels, until):
    one = channels[0]
    number = one.fileno()
    one.close()
    hub.forget(one)
    new = FakeChannel()
    channels.append(new)
    assert hub.add(new)
    assert number in (new.fileno(), new._theirs.fileno())
    new.send(b"a")
    until(lambda: new.handled == ["a"])


def test_what_was_read_before_is_handled_first(hub, until):
    channel = FakeChannel()
    channel.has_more = True
    channel.send(b"a")
    read = channel.read_one

    def read_one():
        channel.has_more = False
        return read()

    channel.read_one = read_one
    assert hub.add(channel)
    assert channel.handled == ["a"]
    channel.send(b"b")
    until(lambda: channel.handled == ["a", "b"])
    channel.close()


def test_a_hub_that_is_closed_takes_no_channel_and_keeps_no_thread(until):
    hub = Hub("/job:test")
    channel = FakeChannel()
    assert hub.add(channel)
    hub.close()
    until(lambda: not hub._threads)
    assert not hub.add(channel)
    hub.close()
    channel.close()


def test_a_hub_without_channels_has_no_thread_and_no_file():
    hub = Hub("/job:test")
    assert hub._threads == 0 and hub._epoll is None
    hub.close()
