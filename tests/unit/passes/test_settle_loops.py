"""Loops of TensorFlow 1.x go where their state is, or are split."""

from __future__ import annotations

import numpy as np

import millrace as tf
from millrace.passes.node import Setting
from millrace.passes.prune import prune
from millrace.passes.settle_loops import settle_loops
from millrace.passes.transfer import LOOP_RECEIVE, LOOP_SEND
from tests.cluster.test_split_loops import F32, Builder

WORKER = "/job:worker/replica:0/task:0"
PS, PS1 = "/job:ps/replica:0/task:0", "/job:ps/replica:0/task:1"


def settled(*homes):
    """The program of a loop whose body adds to variables at `homes`; the counter is on WORKER."""
    build = Builder()
    build.device = f"{WORKER}/device:CPU:0"
    build.constant("start", np.int32(0))
    build.constant("limit", np.int32(3))
    build.count("i", "loop", "start", "limit")
    (plus,) = (node for node in build.definition.node if node.name == "i/plus")
    for i, home in enumerate(homes):
        device = f"{home}/device:CPU:0"
        build.variable(f"v{i}", device)
        build.constant(f"one{i}", np.float32(1), "^i/body", device=device)
        build.add(f"add{i}", "AssignAdd", f"v{i}", f"one{i}", device=device, T=F32)
        plus.input.append(f"^add{i}")
    build.done()
    devices = tuple(f"{task}/device:CPU:0" for task in (WORKER, PS, PS1))
    fetched = tf.get_default_graph().get_tensor_by_name("i/exit:0")
    return settle_loops(prune([fetched], [], [], Setting(devices=devices, home=WORKER)))


def device_of(program, name):
    return next(node.device for node in program.nodes if node.name == name)


def test_a_loop_goes_to_the_one_task_whose_state_it_needs():
    program = settled(PS)
    assert device_of(program, "i/merge") == f"{PS}/device:CPU:0"
    assert not any(node.definition is LOOP_SEND for node in program.nodes)


def test_a_loop_that_needs_state_of_two_tasks_is_split_between_them():
    program = settled(PS, PS1)
    assert {device_of(program, "add0"), device_of(program, "add1")} == {
        f"{PS}/device:CPU:0",
        f"{PS1}/device:CPU:0",
    }
    sends = [node.attrs["key"] for node in program.nodes if node.definition is LOOP_SEND]
    receives = [node.attrs["key"] for node in program.nodes if node.definition is LOOP_RECEIVE]
    assert sends and sorted(sends) == sorted(receives)


def test_a_loop_on_one_task_stays_as_it_is():
    build = Builder()
    build.device = f"{WORKER}/device:CPU:0"
    build.constant("start", np.int32(0))
    build.constant("limit", np.int32(3))
    build.count("i", "loop", "start", "limit")
    build.done()
    fetched = tf.get_default_graph().get_tensor_by_name("i/exit:0")
    program = prune([fetched], [], [], Setting(home=WORKER))
    assert settle_loops(program) is program
