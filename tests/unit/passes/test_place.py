"""Placement among given devices."""

from __future__ import annotations

from typing import Any

import pytest

import millrace as tf
from millrace.passes.node import Setting
from millrace.passes.place import local_devices, place
from millrace.passes.prune import prune

PS, WORKER, WORKER_1 = (
    "/job:ps/replica:0/task:0/device:CPU:0",
    "/job:worker/replica:0/task:0/device:CPU:0",
    "/job:worker/replica:0/task:0/device:CPU:1",
)


def placed(*targets: Any, devices: Any = (WORKER, WORKER_1, PS), **options: Any) -> dict[str, str]:
    setting = Setting(devices=tuple(devices), **options)
    program = place(prune([], [getattr(t, "op", t) for t in targets], [], setting))
    return {node.name: node.device for node in program.nodes}


def test_the_devices_of_a_session_in_this_process() -> None:
    assert local_devices({}) == ["/job:localhost/replica:0/task:0/device:CPU:0"]
    assert len(local_devices({"CPU": 3, "GPU": 2})) == 3
    assert len(local_devices({"CPU": 0})) == 1


def test_a_node_without_a_wish_goes_to_the_first_device() -> None:
    assert placed(tf.no_op(name="a")) == {"a": WORKER}


@pytest.mark.parametrize(
    ("wish", "device"),
    [
        ("/job:ps", PS),
        ("/cpu:1", WORKER_1),
        ("/job:worker/task:0", WORKER),
        ("/job:worker/device:CPU:1", WORKER_1),
        ("/device:CPU:*", WORKER),
    ],
)
def test_a_wish_is_met_by_the_first_device_that_has_what_it_says(wish: str, device: str) -> None:
    with tf.device(wish):
        assert placed(tf.no_op(name="a")) == {"a": device}


def test_whoever_holds_a_reference_is_with_its_variable() -> None:
    with tf.device("/job:ps"):
        v = tf.Variable(1.0, name="v", use_resource=False)
    update = tf.assign_add(v, 1.0, name="update")
    found = placed(update)
    assert found["v"] == found["update"] == PS
    assert found["update/value"] == WORKER if "update/value" in found else True


def test_whoever_uses_a_queue_is_where_the_queue_is() -> None:
    with tf.device("/job:ps"):
        queue = tf.FIFOQueue(3, tf.int32, name="q")
    size = queue.size(name="size")
    with tf.device("/job:worker/device:CPU:1"):
        dequeue = queue.dequeue(name="dequeue")
    assert placed(size, dequeue) == {"q": PS, "size": PS, "dequeue": PS}


def test_the_wish_of_who_uses_a_queue_counts_where_the_queue_leaves_it_open() -> None:
    queue = tf.FIFOQueue(3, tf.int32, name="q")
    assert queue.queue_ref.device == "/device:CPU:*"
    with tf.device("/job:ps"):
        size = queue.size(name="size")
    assert placed(size) == {"q": PS, "size": PS}


def test_a_colocation_group_shares_one_device() -> None:
    with tf.device("/job:ps"):
        a = tf.no_op(name="a")
    b = tf.no_op(name="b")
    b._set_attr("_class", [b"loc:@a"])
    c = tf.no_op(name="c")
    c._set_attr("_class", [b"loc:@b"])
    assert placed(a, b, c) == {"a": PS, "b": PS, "c": PS}


def test_a_group_whose_name_giver_is_not_needed_stays_together() -> None:
    gone = tf.no_op(name="gone")
    members = []
    for name, wish in (("a", None), ("b", "/job:ps")):
        with tf.device(wish):
            op = tf.no_op(name=name)
        op._set_attr("_class", [b"loc:@gone"])
        members.append(op)
    assert placed(*members) == {"a": PS, "b": PS}
    assert gone.name == "gone"


def test_partial_wishes_of_a_group_are_merged() -> None:
    with tf.device("/job:worker"):
        a = tf.no_op(name="a")
    with tf.device("/cpu:1"):
        b = tf.no_op(name="b")
    b._set_attr("_class", [b"loc:@a"])
    assert placed(a, b) == {"a": WORKER_1, "b": WORKER_1}


def test_a_group_that_cannot_agree_is_refused() -> None:
    with tf.device("/job:ps"):
        a = tf.no_op(name="a")
    with tf.device("/job:worker"):
        b = tf.no_op(name="b")
    b._set_attr("_class", [b"loc:@a"])
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        placed(a, b)
    assert "Cannot colocate nodes b and a" in str(caught.value)
    assert "/job:worker and /job:ps" in str(caught.value)


def test_a_wish_that_nothing_meets_names_the_devices() -> None:
    with tf.device("/job:ps/task:7"):
        a = tf.no_op(name="a")
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        placed(a)
    assert "explicitly assigned to /job:ps/task:7" in str(caught.value)
    assert f"[ {WORKER}, {WORKER_1}, {PS} ]" in str(caught.value)
    assert caught.value.op is a


def test_soft_placement_keeps_the_task() -> None:
    with tf.device("/job:ps/gpu:3"):
        a = tf.no_op(name="a")
    with pytest.raises(tf.errors.InvalidArgumentError):
        placed(a)
    assert placed(a, allow_soft_placement=True) == {"a": PS}
    with tf.device("/job:other/gpu:3"):
        b = tf.no_op(name="b")
    with pytest.raises(tf.errors.InvalidArgumentError):
        placed(b, allow_soft_placement=True)


def test_the_log_has_a_line_a_node() -> None:
    lines: list[str] = []
    with tf.device("/job:ps"):
        a = tf.no_op(name="a")
    placed(a, log_placement=lines.append)
    assert lines == [f"a: (NoOp): {PS}"]
    placed(a)
    assert len(lines) == 1
