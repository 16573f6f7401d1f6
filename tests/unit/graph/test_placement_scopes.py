"""Devices, colocation and control dependencies while a graph is built. As TensorFlow does."""

from __future__ import annotations

from typing import Any

import pytest

import millrace as tf


def device() -> str:
    return tf.no_op().device


# -- Devices ---------------------------------------------------------------------------------


def test_the_inner_device_wins_where_both_say_something() -> None:
    assert device() == ""
    with tf.device("/cpu:0"):
        assert device() == "/device:CPU:0"
    with tf.device("/job:ps"):
        assert device() == "/job:ps"
        with tf.device("/cpu:0"):
            assert device() == "/job:ps/device:CPU:0"
        with tf.device("/job:worker/task:3/gpu:1"):
            assert device() == "/job:worker/task:3/device:GPU:1"
            with tf.device("/task:4"):
                assert device() == "/job:worker/task:4/device:GPU:1"
            with tf.device(""):
                assert device() == "/job:worker/task:3/device:GPU:1"


def test_none_forgets_the_devices_around() -> None:
    with tf.device("/job:ps"), tf.device(None):
        assert device() == ""
        with tf.device("/gpu:0"):
            assert device() == "/device:GPU:0"


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("/CPU:0", "/device:CPU:0"),
        ("cpu:0", "/device:CPU:0"),
        ("/device:CPU:*", "/device:CPU:*"),
        ("/device:XLA_CPU:0", "/device:XLA_CPU:0"),
        ("/job:w/replica:1/task:0/device:GPU:3", "/job:w/replica:1/task:0/device:GPU:3"),
        (tf.DeviceSpec(job="x", task=2), "/job:x/task:2"),
    ],
)
def test_a_device_is_written_in_one_form(given: Any, canonical: str) -> None:
    with tf.device(given):
        assert device() == canonical


def test_a_device_function_sees_the_operation_and_the_inner_devices() -> None:
    with tf.device(lambda op: f"/job:{op.type.lower()}"):
        assert device() == "/job:noop"
    with tf.device("/job:a/task:1"):
        with tf.device(lambda op: "/task:7/cpu:0"):
            assert device() == "/job:a/task:7/device:CPU:0"
        with tf.device(lambda op: op.device or "/task:9"):
            assert device() == "/job:a/task:9"
    with tf.device(lambda op: "/job:f"), tf.device("/task:7"):
        assert device() == "/job:f"


@pytest.mark.parametrize("bad", ["/foo:0", "/job", "/cpu:x", "/task:a"])
def test_a_malformed_device_is_refused(bad: str) -> None:
    with pytest.raises(ValueError), tf.device(bad):
        device()


# -- Colocation ------------------------------------------------------------------------------


@pytest.fixture
def homes() -> tuple[Any, Any]:
    with tf.device("/job:a"):
        a = tf.constant(1.0, name="a")
    with tf.device("/job:b"):
        b = tf.constant(1.0, name="b")
    return a, b


def placed() -> tuple[str, list[bytes]]:
    op = tf.no_op()
    return op.device, op.colocation_groups()


def test_colocation_takes_the_group_and_the_device(homes: Any) -> None:
    a, _ = homes
    for target in (a, a.op, tf.IndexedSlices(a, tf.constant([0]))):
        with tf.colocate_with(target):
            assert placed() == ("/job:a", [b"loc:@a"])
    with tf.device("/job:c"), tf.colocate_with(a):
        assert placed() == ("/job:a", [b"loc:@a"])
        with tf.device("/job:d"):
            assert placed() == ("/job:a", [b"loc:@a"])


def test_nested_colocation_adds_up_unless_told_otherwise(homes: Any) -> None:
    a, b = homes
    with tf.colocate_with(a):
        with tf.colocate_with(b):
            assert placed() == ("/job:b", [b"loc:@a", b"loc:@b"])
        with tf.colocate_with(b, ignore_existing=True):
            assert placed() == ("/job:b", [b"loc:@b"])
        with tf.colocate_with(None, ignore_existing=True):
            op = tf.no_op(name="free")
            assert (op.device, op.colocation_groups()) == ("", [b"loc:@free"])
    with pytest.raises(ValueError, match="ignore_existing is not True"), tf.colocate_with(None):
        pass


def test_colocation_with_a_colocated_operation_joins_its_group(homes: Any) -> None:
    a, _ = homes
    with tf.colocate_with(a):
        c = tf.constant(2.0)
    with tf.colocate_with(c):
        assert placed() == ("/job:a", [b"loc:@a"])


# -- Control dependencies --------------------------------------------------------------------


def controls(element: Any) -> list[str]:
    op = getattr(element, "op", element)
    return [control.name for control in op.control_inputs]


def test_only_what_does_not_depend_already_gets_control_inputs() -> None:
    a = tf.no_op(name="a")
    b = tf.constant(1.0, name="b")
    c = tf.constant(2.0, name="c")
    with tf.control_dependencies([a, b]):
        x = tf.negative(c, name="x")
        assert controls(x) == ["a", "b"]
        assert controls(tf.negative(x)) == []
        assert controls(tf.negative(b)) == ["a"]
        with tf.control_dependencies([c]):
            assert controls(tf.negative(b)) == ["a", "c"]
            assert controls(tf.negative(x)) == ["c"]


def test_none_clears_the_blocks_around() -> None:
    a, b = tf.no_op(name="a"), tf.no_op(name="b")
    with tf.control_dependencies([a]):
        with tf.control_dependencies(None):
            assert controls(tf.no_op()) == []
            with tf.control_dependencies([b]):
                assert controls(tf.no_op()) == ["b"]
        assert controls(tf.no_op()) == ["a"]


def test_control_inputs_are_named_or_given_in_any_form() -> None:
    a = tf.no_op(name="a")
    b = tf.constant(1.0, name="b")
    with tf.control_dependencies(["a", "b:0"]):
        assert controls(tf.no_op()) == ["a", "b"]
    with tf.control_dependencies([b, b, b.op]):
        assert controls(tf.no_op()) == ["b"]
    with tf.control_dependencies([tf.IndexedSlices(b, tf.constant([0]))]):
        assert controls(tf.no_op()) == ["b"]
    with tf.control_dependencies([tf.Variable(1.0, name="v", use_resource=False)]):
        assert controls(tf.no_op()) == ["v"]
    assert controls(tf.group(a, b, name="g")) == ["a", "b"]
    assert controls(tf.tuple([b], control_inputs=[a], name="t")[0]) == ["t/group_deps"]


@pytest.mark.parametrize(
    ("given", "kind"), [(7, TypeError), ([7], TypeError), ([None], TypeError), (["zz"], KeyError)]
)
def test_a_control_input_that_is_none_is_refused(given: Any, kind: Any) -> None:
    with pytest.raises(kind), tf.control_dependencies(given):
        pass
