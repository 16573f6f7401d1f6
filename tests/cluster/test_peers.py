"""How tasks meet: one channel a pair, tickets, and who is told when one goes."""

import json
import threading

import pytest

import millrace as tf
from millrace.core import errors
from millrace.rpc.message import Kind, Message


@pytest.fixture(params=["in-process", "socket", "grpc"])
def two(make_cluster, request):
    """The peers of two tasks, and their addresses."""
    cluster = make_cluster({"a": 1, "b": 1}, request.param)
    servers = cluster["a", 0], cluster["b", 0]
    return [s.peers for s in servers], [s.target.removeprefix("grpc://") for s in servers]


def test_a_channel_is_made_once_and_used_both_ways(two, until):
    (a, b), (at_a, at_b) = two
    channel = a.channel(at_b)
    assert a.channel(at_b) is channel
    assert (channel.peer, channel.incarnation) == (b.me.task, b.me.incarnation)
    until(lambda: b.has_channel(at_a))
    back = b.channel(at_a)
    assert (back.peer, back.incarnation) == (a.me.task, a.me.incarnation)
    assert len(a._open) == len(b._open) == 1


def test_many_who_need_a_channel_at_once_share_it(two):
    (a, _), (_, at_b) = two
    barrier, found = threading.Barrier(8), []

    def dial():
        barrier.wait(60)
        found.append(a.channel(at_b))

    threads = [threading.Thread(target=dial) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(set(found)) == 1


def test_two_who_dial_each_other_at_once_lose_no_channel(two, until):
    (a, b), (at_a, at_b) = two
    barrier = threading.Barrier(2)

    def dial(peers, address):
        barrier.wait(60)
        peers.channel(address).send(Message(Kind.PING))

    threads = [threading.Thread(target=dial, args=args) for args in ((a, at_b), (b, at_a))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    until(lambda: len(a._open) == len(b._open))
    a.close()
    until(lambda: not a._open and not b._open)
    with pytest.raises(errors.UnavailableError, match="has stopped"):
        a.channel(at_b)


def kinds_heard_by(peers):
    """The kinds of the messages that arrive from now on, which are not passed on."""
    heard = []
    peers.on_message = lambda channel, message: heard.append(message.kind)
    return heard


def test_a_ping_is_answered(two, until):
    (a, _), (_, at_b) = two
    heard = kinds_heard_by(a)
    a.channel(at_b).send(Message(Kind.PING, 3))
    until(lambda: heard == [Kind.PONG])


def test_a_ping_of_one_who_is_gone_is_no_error(two, caplog):
    """As a task finds that was stopped for a while: who asked has given it up."""
    (a, _), (_, at_b) = two
    channel = a.channel(at_b)
    channel.close()
    channel._received(Message(Kind.PING))
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_message_that_nobody_can_use_does_no_harm(two, until):
    (a, _), (_, at_b) = two
    heard = kinds_heard_by(a)
    channel = a.channel(at_b)
    for kind in (Kind.DONE, Kind.CANCEL, Kind.PONG):
        channel.send(Message(kind, 99, 1, b"about nothing"))
    channel.send(Message(Kind.RUN, 98, 12345))  # answered: no such graph
    channel.send(Message(Kind.PING))
    until(lambda: sorted(heard) == [Kind.DONE, Kind.PONG])
    assert channel.is_open


def test_a_task_that_comes_back_displaces_its_old_channel(two, until):
    (a, _), _ = two
    greeting = {"task": "/job:c", "address": "c:1", "incarnation": 1, "protocol": "grpc"}
    for incarnation in (1, 2):
        answer = json.loads(a.meet(json.dumps({**greeting, "incarnation": incarnation}).encode()))
        ticket = bytes.fromhex(answer["ticket"])
        channel = a.accept_stream(ticket)
        assert channel.incarnation == incarnation and a.channel("c:1") is channel
        assert a.accept_stream(ticket) is None, "a ticket is good for one channel"
    assert len([c for c in a._open if c.address == "c:1"]) == 1
    channel.close()
    assert not a.has_channel("c:1")


def test_a_task_that_was_given_up_is_asked_over_another_connection(two):
    """The system tries the old one at intervals that double, as long as nothing comes back."""
    (a, _), (_, at_b) = two
    before = a.connection(at_b)
    assert a.connection(at_b) is before
    a.lose(at_b, "Nothing was heard")
    assert a.connection(at_b) is not before
    assert before.status(60.0)  # What is under way goes on.


def test_tickets_are_kept_within_bounds(two):
    (a, _), _ = two
    greeting = json.dumps({"task": "/job:c", "address": "c:1", "incarnation": 1}).encode()
    for _ in range(1100):
        a.meet(greeting)
    assert len(a._tickets) == 1024


def test_a_server_that_does_not_answer_is_unavailable_and_named(two, free_port):
    (a, _), _ = two
    with pytest.raises(errors.UnavailableError, match=str(free_port)):
        a.channel(f"localhost:{free_port}")
    assert not a._dialing


def test_a_stopped_server_lets_its_peers_know(make_cluster, until):
    cluster = make_cluster({"a": 1, "b": 1})
    a, b = cluster["a", 0], cluster["b", 0]
    address = b.target.removeprefix("grpc://")
    channel = a.peers.channel(address)
    b.stop()
    until(lambda: not channel.is_open)
    with pytest.raises(tf.errors.UnavailableError):
        a.peers.post(address, Message(Kind.PING))


def test_what_is_kept_of_an_address_goes_with_its_last_channel(two):
    (a, _), _ = two
    greeting = {"task": "/job:c", "address": "c:1", "incarnation": 1, "protocol": "grpc"}
    made = []
    for _ in range(2):
        answer = json.loads(a.meet(json.dumps(greeting).encode()))
        made.append(a.accept_stream(bytes.fromhex(answer["ticket"])))
    assert a.channels("c:1") == made
    for channel in made:
        channel.send(Message(Kind.DONE, 1))
    assert a.traffic()["/job:c"].messages_sent == 2, "on both channels to the same task"
    for left in (1, 0):
        made[left].close()
        assert a.channels("c:1") == made[:left] and a.has_channel("c:1") == bool(left)
    assert "c:1" not in a._open_to and "c:1" not in a._channels
