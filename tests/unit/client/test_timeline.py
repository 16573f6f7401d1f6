"""Chrome traces from step statistics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf import text_format
from tensorboard.compat.proto import step_stats_pb2

import millrace as tf
from millrace.client.timeline import Timeline

STATS = """
dev_stats {
  device: "/device:CPU:0"
  node_stats { node_name: "a" all_start_micros: 100 all_end_rel_micros: 10 thread_id: 7
    timeline_label: "a = Const()"
    output { slot: 0 tensor_description { allocation_description {
      requested_bytes: 40 allocator_name: "cpu" } } } }
  node_stats { node_name: "stage_1" all_start_micros: 120 all_end_rel_micros: 30 thread_id: 8
    timeline_label: "stage_1 = XLA(a) of b c" }
  node_stats { node_name: "b" all_start_micros: 120 thread_id: 8
    timeline_label: "b = Neg(a) in stage_1" }
  node_stats { node_name: "c" all_start_micros: 120 thread_id: 8
    timeline_label: "c = Neg(b) in stage_1"
    output { slot: 0 tensor_description { allocation_description {
      requested_bytes: 8 allocator_name: "cpu" } } } }
}
dev_stats {
  device: "/device:CPU:1"
  node_stats { node_name: "d" all_start_micros: 160 all_end_rel_micros: 5 thread_id: 7
    timeline_label: "d = Print(c, ^a)" }
}
"""


def events(stats: Any, **options: Any) -> list[dict[str, Any]]:
    text = Timeline(stats).generate_chrome_trace_format(**options)
    return json.loads(text)["traceEvents"]


@pytest.fixture
def stats() -> Any:
    return text_format.Parse(STATS, step_stats_pb2.StepStats())


def test_a_device_is_a_process_and_a_thread_is_a_row(stats: Any) -> None:
    found = events(stats)
    processes = {e["pid"]: e["args"]["name"] for e in found if e["name"] == "process_name"}
    assert processes == {0: "/device:CPU:0 Compute", 1: "/device:CPU:1 Compute"}
    bars = [(e["name"], e["ts"], e["dur"], e["pid"], e["tid"]) for e in found if e["ph"] == "X"]
    assert bars == [("Const", 100, 10, 0, 0), ("XLA", 120, 30, 0, 1), ("Print", 160, 5, 1, 0)]


def test_a_compiled_stage_names_what_was_fused_into_it(stats: Any) -> None:
    (stage,) = (e for e in events(stats) if e["name"] == "XLA")
    assert stage["args"] == {"name": "stage_1", "op": "XLA", "input0": "a", "detail": "of b c"}


def test_arrows_go_from_maker_to_reader_across_rows(stats: Any) -> None:
    flows = [(e["ph"], e["name"], e["ts"], e["id"]) for e in events(stats) if e["ph"] in "st"]
    assert flows == [
        ("s", "a", 110, 0), ("t", "a", 120, 0),
        ("s", "c", 150, 1), ("t", "c", 160, 1),
        ("s", "a", 110, 2), ("t", "a", 160, 2),
    ]  # fmt: skip
    assert not [e for e in events(stats, show_dataflow=False) if e["ph"] in "st"]


def test_memory_is_held_until_the_last_reader_is_done(stats: Any) -> None:
    curve = [(e["ts"], e["args"]["cpu"]) for e in events(stats, show_memory=True) if e["ph"] == "C"]
    assert curve == [(100, 40), (120, 48), (165, 8), (165, 0)]
    analysis = Timeline(stats).analyze_step_stats()
    assert analysis.allocator_maximums["cpu"].num_bytes == 48
    assert analysis.allocator_maximums["cpu"].tensors == {"a", "c"}


def test_an_empty_step_is_an_empty_trace() -> None:
    assert events(step_stats_pb2.StepStats()) == []


@pytest.fixture
def traced() -> Iterator[Any]:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        words = tf.as_string(tf.reduce_sum(x * 2.0, name="total"), name="words")
        metadata = tf.RunMetadata()
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE, output_partition_graphs=True)
        session.run(words, {x: [[1, 2]]}, options, metadata)
        yield session, words, metadata


def test_a_traced_step_tells_of_every_node_it_ran(traced: Any) -> None:
    _, _, metadata = traced
    (device,) = metadata.step_stats.dev_stats
    assert device.device == "/job:localhost/replica:0/task:0/device:CPU:0"
    entries = {entry.node_name: entry for entry in device.node_stats}
    assert {"mul", "total", "words"} <= set(entries)
    (stage,) = (e for name, e in entries.items() if name.startswith("stage_"))
    assert stage.all_end_rel_micros > 0 and stage.thread_id
    assert stage.timeline_label == f"{stage.node_name} = XLA(x) of mul total"
    assert entries["total"].timeline_label == f"total = Sum(mul, Const) in {stage.node_name}"
    assert entries["words"].timeline_label == "words = AsString(total)"
    assert entries["words"].all_start_micros >= stage.all_start_micros
    (output,) = entries["total"].output
    assert output.tensor_description.dtype == tf.float32.as_datatype_enum
    assert not output.tensor_description.shape.dim
    assert output.tensor_description.allocation_description.requested_bytes == 4
    assert [e["name"] for e in events(metadata.step_stats) if e["ph"] == "X"] == ["XLA", "AsString"]


def test_partition_graphs_are_the_placed_nodes(traced: Any) -> None:
    _, _, metadata = traced
    (partition,) = metadata.partition_graphs
    nodes = {node.name: node for node in partition.node}
    assert set(nodes) == {"_arg_x_0_0", "mul", "mul/y", "total", "Const", "words"}
    assert list(nodes["mul"].input) == ["_arg_x_0_0", "mul/y"]
    assert nodes["words"].device == "/job:localhost/replica:0/task:0/device:CPU:0"


def test_run_metadata_tells_of_the_last_step_only(traced: Any) -> None:
    session, words, metadata = traced
    session.run(words, {"x:0": [[1, 2]]}, run_metadata=metadata)
    assert metadata == tf.RunMetadata()
