"""A thread that waits for messages reads them itself; nobody is forgotten for that."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from millrace.core import errors
from millrace.rpc import turns
from millrace.rpc.channel import Channel
from millrace.rpc.message import Kind, Message
from millrace.rpc.socket_channel import SocketChannel

SECONDS = 60.0


class Handler:
    """Keeps the keys of messages, and the threads that brought them."""

    def __init__(self) -> None:
        self.keys: list[int] = []
        self.threads: list[int] = []
        self.closed: list[errors.OpError] = []
        self.then: Callable[[], None] = lambda: None

    def on_message(self, channel: Channel, message: Message) -> None:
        self.threads.append(threading.get_ident())
        self.keys.append(message.key)
        self.then()

    def on_close(self, channel: Channel, error: errors.OpError) -> None:
        self.closed.append(error)

    def until(self, condition: Callable[[], Any]) -> None:
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.002)


class Line:
    """A channel with its handler, and the other end."""

    def __init__(self) -> None:
        left, right = socket.socketpair()
        self.told, self.other_told = Handler(), Handler()
        self.channel = SocketChannel(left, self.told, "/job:ps", 1)
        self.other = SocketChannel(right, self.other_told, "/job:worker", 2)

    def say(self, key: int, kind: Kind = Kind.TENSORS) -> None:
        self.other.send(Message(kind, 1, key))


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The own threads wait until the end of the test, however busy the machine is."""
    monkeypatch.setattr(turns, "_GRACE", SECONDS)


@pytest.fixture
def line() -> Iterator[Line]:
    with contextlib.closing(Started(Line())) as made:
        yield made.line


class Started:
    def __init__(self, line: Line) -> None:
        self.line = line
        line.channel.start()
        line.other.start()

    def close(self) -> None:
        self.line.channel.close()
        self.line.other.close()


def listen(*lines: Line) -> turns.Listener:
    found = turns.listener([line.channel for line in lines])
    assert found is not None
    return found


def lend(line: Line) -> None:
    """Waits once in vain, so that the channel's own thread gives the turn away."""
    listener = listen(line)
    before = len(line.told.keys)
    deadline = time.monotonic() + SECONDS
    while not listener.wait(0.0, lambda: False):
        assert time.monotonic() < deadline
        line.say(0)
        before += 1
        line.told.until(lambda seen=before: len(line.told.keys) >= seen)


def test_the_own_thread_reads_when_nobody_waits(line: Line) -> None:
    line.say(7)
    line.told.until(lambda: line.told.keys == [7])
    assert line.told.threads != [threading.get_ident()]


def test_a_thread_that_waits_reads_itself(line: Line) -> None:
    lend(line)
    seen = len(line.told.keys)
    line.other_told.then = lambda: line.say(8)
    line.channel.send(Message(Kind.TENSORS, 1, 1))
    assert listen(line).wait(SECONDS, lambda: len(line.told.keys) > seen)
    assert line.told.keys[-1] == 8
    assert line.told.threads[-1] == threading.get_ident()


def test_what_came_together_is_handled_one_after_the_other(line: Line) -> None:
    lend(line)
    seen = len(line.told.keys)
    for key in range(1, 200):
        line.say(key)
    while len(line.told.keys) - seen < 199:
        listen(line).wait(0.05, lambda: len(line.told.keys) - seen >= 199)
    assert line.told.keys[seen:] == list(range(1, 200))


def test_the_own_thread_takes_over_from_a_thread_that_went_away(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "_GRACE", 0.02)
    lend(line)
    line.say(9)
    line.told.until(lambda: line.told.keys[-1:] == [9])
    assert line.told.threads[-1] != threading.get_ident()


def test_a_wait_for_several_channels_hears_each(line: Line) -> None:
    with contextlib.closing(Started(Line())) as second:
        other = second.line
        lend(line)
        lend(other)
        for one in (line, other):
            seen = len(one.told.keys)
            one.say(5)
            while len(one.told.keys) == seen:
                listen(line, other).wait(0.05, lambda one=one, seen=seen: one.told.keys[seen:])
            assert one.told.keys[-1] == 5


def test_a_thread_with_several_channels_reads_all_of_them_in_the_end(line: Line) -> None:
    """Each channel's own thread came back while the other's message was waited for, for ever."""
    with contextlib.closing(Started(Line())) as second:
        lines = (line, second.line)
        for step in range(20):

            def answer(step: int = step) -> None:
                for one in lines:
                    time.sleep(4 * turns._SHORT_GRACE)  # so that it could come back
                    one.say(step)

            def is_over(step: int = step) -> bool:
                return all(one.told.keys[-1:] == [step] for one in lines)

            other_side = threading.Thread(target=answer)
            other_side.start()
            listener = listen(*lines)
            while not is_over():
                if not listener.wait(0.01, is_over):
                    with listener.following():
                        line.told.until(is_over)
            other_side.join()
            if all(one.told.threads[-1] == threading.get_ident() for one in lines):
                return
        pytest.fail("its own answers were read by other threads in each of 20 steps")


def test_another_thread_wakes_a_thread_that_reads(line: Line) -> None:
    lend(line)
    listener, over = listen(line), threading.Event()

    def end() -> None:
        line.told.until(lambda: listener._is_asleep or over.is_set())
        over.set()
        listener.wake()

    waker = threading.Thread(target=end)
    waker.start()
    start = time.monotonic()
    while not over.is_set():
        listener.wait(SECONDS, over.is_set)
    waker.join()
    assert time.monotonic() - start < SECONDS


def test_who_does_not_get_the_turn_is_told_by_who_has_it(line: Line) -> None:
    lend(line)
    seen = len(line.told.keys)
    arrived = threading.Event()
    line.told.then = arrived.set
    reading = threading.Event()

    def read() -> None:
        def is_over() -> bool:
            reading.set()
            return len(line.told.keys) > seen

        listen(line).wait(SECONDS, is_over)

    reader = threading.Thread(target=read)
    reader.start()
    assert reading.wait(SECONDS)
    follower = listen(line)
    if not follower.wait(0.0, arrived.is_set):
        with follower.following():
            line.say(6)
            assert arrived.wait(SECONDS)
    else:
        line.say(6)
    reader.join(SECONDS)
    line.told.until(lambda: line.told.keys[-1] == 6)


def test_the_end_of_a_channel_ends_the_wait(line: Line) -> None:
    lend(line)
    line.other.close()
    assert not listen(line).wait(SECONDS, lambda: False)
    assert "closed by the other task" in line.told.closed[0].message


def test_closing_a_channel_here_ends_the_wait_of_who_reads(line: Line) -> None:
    lend(line)
    listener = listen(line)

    def close() -> None:
        line.told.until(lambda: listener._is_asleep or line.told.closed)
        line.channel.abort("It was silent")

    closer = threading.Thread(target=close)
    closer.start()
    listener.wait(SECONDS, lambda: line.told.closed)
    closer.join()
    assert "It was silent" in line.told.closed[0].message


def test_an_interrupt_in_the_middle_of_a_message_ends_the_channel(line: Line) -> None:
    lend(line)

    def interrupt() -> None:
        raise KeyboardInterrupt

    seen = len(line.told.keys)
    line.told.then = interrupt
    line.say(4)
    with pytest.raises(KeyboardInterrupt):
        listen(line).wait(SECONDS, lambda: len(line.told.keys) > seen + 1)
    assert "interrupted" in line.told.closed[0].message
    line.other_told.until(lambda: line.other_told.closed)


def test_a_channel_whose_other_end_gives_orders_stays_with_its_own_thread(line: Line) -> None:
    lend(line)
    line.say(3, Kind.RUN)
    listen(line).wait(SECONDS, lambda: line.told.keys[-1:] == [3])
    assert not listen(line).wait(0.0, lambda: False)
    line.say(2)
    line.told.until(lambda: line.told.keys[-1:] == [2])
    assert line.told.threads[-1] != threading.get_ident()


def test_a_handler_that_waits_itself_does_not_read_on(line: Line) -> None:
    lend(line)
    found: list[Any] = []
    line.told.then = lambda: found.append(turns.listener([line.channel]))
    line.say(1)
    listen(line).wait(SECONDS, lambda: found)
    assert found == [None]


def test_a_channel_that_closes_while_somebody_begins_to_listen_is_left_alone(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own thread has found the end meanwhile; whoever waits is told by others."""
    fileno = line.channel.fileno

    def close_and_tell() -> int:
        line.channel.close()
        return fileno()

    monkeypatch.setattr(line.channel, "fileno", close_and_tell)
    assert turns.listener([line.channel]) is None
