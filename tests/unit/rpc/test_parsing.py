"""Large messages, read in pieces: the same messages, and the same errors."""

import random

import numpy as np
import pytest
from google.protobuf.message import DecodeError

import millrace as tf
from millrace.rpc import parsing
from millrace.rpc import service_messages as messages


def graph_of(count: int) -> tf.GraphDef:
    graph = tf.GraphDef()
    for i in range(count):
        node = graph.node.add(name=f"node{i}", op="Neg", input=[f"node{i - 1}"] if i else [])
        node.attr["T"].type = 1
    return graph


def large_node() -> tf.NodeDef:
    node = tf.NodeDef(name="words", op="Const")
    node.attr["dtype"].type = 7
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto([f"word {i}" for i in range(500)]))
    node.attr["_numbers"].list.i.extend(range(1000))
    return node


def request() -> messages.RunStepRequest:
    step = messages.RunStepRequest(session_handle="handle", fetch=["a:0", "b:0"])
    step.feed.add(name="numbers").tensor.CopyFrom(tf.make_tensor_proto(np.arange(2000.0)))
    step.feed.add(name="words").tensor.CopyFrom(tf.make_tensor_proto(["word"] * 700))
    return step


LARGE = {
    "nodes": lambda: messages.CreateSessionRequest(graph_def=graph_of(300), target="t"),
    "one node": lambda: tf.GraphDef(node=[large_node(), large_node()]),
    "feeds": request,
}


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(parsing, "PIECE", 256)
    monkeypatch.setattr(parsing, "WHOLE", 256)


@pytest.mark.parametrize("name", LARGE)
def test_a_message_read_in_pieces_is_the_message(name):
    message = LARGE[name]()
    data = message.SerializeToString()
    assert len(data) > 10 * parsing.PIECE
    assert parsing.parse(type(message), data) == message


def test_no_piece_is_much_larger_than_it_should_be(monkeypatch):
    sizes = []
    merge = parsing._merge_whole
    monkeypatch.setattr(
        parsing,
        "_merge_whole",
        lambda message, data: (sizes.append(len(data)), merge(message, data)),
    )
    for make in LARGE.values():
        message = make()
        parsing.parse(type(message), message.SerializeToString())
    # An array's own bytes are one field, and copied as a whole; and so are packed numbers.
    assert sorted(sizes)[-2] < 3000 < sorted(sizes)[-1] < 17_000


def test_of_two_entries_of_a_map_the_last_one_counts():
    one, two = tf.NodeDef(), tf.NodeDef()
    one.attr["value"].s = b"x" * 1000
    two.attr["value"].list.i.extend(range(1000))
    data = one.SerializeToString() + two.SerializeToString()
    assert parsing.parse(tf.NodeDef, data) == tf.NodeDef.FromString(data)


def test_damaged_bytes_are_refused_or_read_as_the_library_reads_them():
    chance = random.Random(7)
    for make in LARGE.values():
        message = make()
        data = message.SerializeToString()
        for _ in range(200):
            damaged = bytearray(
                data[: chance.choice((len(data), chance.randrange(300, len(data))))]
            )
            for _ in range(chance.randrange(1, 4)):
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            try:
                wanted = type(message).FromString(bytes(damaged))
            except DecodeError:
                wanted = None
            try:
                found = parsing.parse(type(message), bytes(damaged))
            except DecodeError:
                continue  # Groups, which no message of ours has, are refused here.
            if wanted is not None:
                assert found.SerializeToString(deterministic=True) == wanted.SerializeToString(
                    deterministic=True
                )


@pytest.mark.parametrize(
    "data", [b"\x0b" + b"\x00" * 300, b"\x0a\xff\xff\xff\xff\x7f" + b"x" * 300, b"\xff" * 300]
)
def test_lengths_that_are_not_there_are_refused(data):
    with pytest.raises(DecodeError):
        parsing.parse(tf.GraphDef, data)


def test_a_message_of_too_many_fields_is_not_read_on(monkeypatch):
    monkeypatch.setenv("MILLRACE_MAX_MESSAGE_FIELDS", "1000")
    monkeypatch.setattr(parsing, "PIECE", 1)
    node = tf.GraphDef(node=[tf.NodeDef()]).SerializeToString()
    assert len(parsing.parse(tf.GraphDef, node * 1000).node) == 1000
    with pytest.raises(tf.errors.ResourceExhaustedError, match="GraphDef: 1,001.*MESSAGE_FIELDS"):
        parsing.parse(
            messages.CreateSessionRequest,
            messages.CreateSessionRequest(
                graph_def=tf.GraphDef.FromString(node * 2000)
            ).SerializeToString(),
        )
