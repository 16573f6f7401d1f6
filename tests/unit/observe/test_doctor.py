"""What the doctor finds: each illness, and health."""

from __future__ import annotations

import time
from typing import Any

import pytest

import millrace as tf
from millrace.observe import doctor
from millrace.observe.doctor import Examination
from millrace.platform.ports import HeldPorts


def status(**facts: Any) -> dict[str, Any]:
    healthy: dict[str, Any] = {
        "version": "1",
        "variables": [],
        "queues": [],
        "accumulators": [],
        "left": [],
        "changing_shapes": [],
        "disk": {"folder": "/", "free_bytes": 50, "total_bytes": 100},
    }
    return {**healthy, **facts}


def told(
    now: dict[str, dict[str, Any]],
    before: dict[str, dict[str, Any]] | None = None,
    silent: dict[str, str] | None = None,
    clocks: dict[str, float] | None = None,
) -> list[str]:
    names = [*now, *(silent or {})]
    addresses = {name: f"{name.replace(':', '-')}:2222" for name in names}
    found = Examination(now, before or now, silent or {}, addresses, clocks or {})
    return [str(finding) for finding in doctor.findings(found)]


def test_nothing_is_wrong_with_a_healthy_job() -> None:
    assert told({"ps:0": status(), "worker:0": status()}) == []


@pytest.mark.parametrize(
    ("why", "advice"),
    [
        ("the name ps-0 does not resolve here", "resolver"),
        ("nothing listens at ps-0:2222 (connection refused)", "millrace logs --task ps:0"),
        ("ps-0:2222 gave no answer in 2 s", "firewall"),
    ],
)
def test_a_task_that_is_not_up_is_told_with_the_reason(why: str, advice: str) -> None:
    (said,) = told({"worker:0": status()}, silent={"ps:0": why})
    assert said.startswith(f"ps:0 (ps-0:2222) is not up: {why}") and advice in said


def test_a_closed_port_is_found_by_asking() -> None:
    with HeldPorts(1, "127.0.0.1") as held:
        addresses = {"ps:0": held.addresses[0], "worker:0": "no.invalid:1"}
        found = doctor.examine(addresses, lambda each: dict.fromkeys(each, "no answer"), 0.0)
    assert "connection refused" in found.silent["ps:0"]
    assert "does not resolve" in found.silent["worker:0"]


def test_clocks_that_differ_are_found() -> None:
    def ask_all(addresses):
        return {"ps:0": status(time=time.time() + 60), "worker:0": status(time=time.time())}

    found = doctor.examine({"ps:0": "a:1", "worker:0": "b:1"}, ask_all, 0.0)
    (said,) = [str(finding) for finding in doctor.findings(found)]
    assert "The clock of ps:0 is 60 s ahead of this machine's" in said


def test_versions_that_differ_are_found() -> None:
    (said,) = told({"ps:0": status(version="0.2.0"), "worker:0": status(version="0.3.0")})
    assert "ps:0 0.2.0, worker:0 0.3.0" in said


def variable(name: str, mebibytes: int) -> dict[str, Any]:
    return {"name": name, "shape": [mebibytes, 1 << 18], "bytes": mebibytes << 20}


def test_a_ps_with_one_huge_variable_is_told_the_partitioner() -> None:
    ps0, ps1 = status(variables=[variable("table", 90)]), status(variables=[variable("w", 10)])
    (said,) = told({"ps:0": ps0, "ps:1": ps1})
    assert "ps:0 keeps 90% of the 100 MiB" in said and "variable table" in said
    assert "tf.fixed_size_partitioner(2)" in said


def test_a_ps_with_most_variables_is_told_the_strategy() -> None:
    many = status(variables=[variable(f"w{i}", 10) for i in range(8)])
    (said,) = told({"ps:0": many, "ps:1": status(variables=[variable("w", 10)])})
    assert "GreedyLoadBalancingStrategy(2, " in said
    assert told({"ps:0": many}) == []
    assert told({"ps:0": many, "ps:1": many}) == []


def test_a_worker_that_waits_for_its_input_is_found_on_a_real_server(background, until) -> None:
    server = tf.train.Server.create_local_server()
    try:
        with tf.Graph().as_default():
            queue = tf.FIFOQueue(3, tf.int32, shared_name="input")
            dequeue = queue.dequeue()
            with tf.Session(server.target) as sess:
                waits = background(lambda: sess.run(dequeue))
                until(lambda: any(q["dequeues_waiting"] for q in server.status()["queues"]))
                (said,) = told({"worker:0": server.status()})
                assert "wait for the queue input" in said
                assert "tf.train.start_queue_runners(sess)" in said
                sess.run(queue.enqueue(1))
                assert waits.result() == 1
                assert told({"worker:0": server.status()}) == []
    finally:
        server.stop()


def test_shapes_that_keep_changing_are_told_with_the_operation(monkeypatch) -> None:
    monkeypatch.setattr("millrace.runtime.tiers.CHANGING", {})
    server = tf.train.Server.create_local_server()
    try:
        with tf.Graph().as_default():
            x = tf.placeholder(tf.float32, [None], name="batch")
            y = tf.tanh(x, name="hidden") * 2
            with tf.Session(server.target) as sess:
                before = server.status()
                for length in range(1, 20):
                    sess.run(y, {x: [0.5] * length})
                after = server.status()
    finally:
        server.stop()
    (said,) = told({"worker:0": after}, {"worker:0": before})
    assert "around hidden meet new shapes" in said and "bucket" in said
    assert told({"worker:0": after}, {"worker:0": after}) == []


def test_a_round_that_waits_for_a_worker_that_has_left_is_found() -> None:
    stands = {"name": "w", "step": 7, "count": 1, "required": 2, "stale": 0}
    now = {"ps:0": status(accumulators=[stands], left=["worker-1:2222"]), "worker:1": status()}
    (said,) = told(now)
    assert "has 1 of 2 gradients and waits, while worker:1 has left" in said
    before = {"ps:0": status(accumulators=[{**stands, "step": 6}])}
    assert told(now, before) == []


def test_an_accumulator_says_how_many_gradients_are_waited_for(background, until) -> None:
    server = tf.train.Server.create_local_server()
    try:
        with tf.Graph().as_default():
            gradients = tf.ConditionalAccumulator(tf.float32, shape=[], shared_name="g")
            apply, take = gradients.apply_grad(1.0), gradients.take_grad(2)
            with tf.Session(server.target) as sess:
                sess.run(apply)
                taken = background(lambda: sess.run(take))
                until(lambda: server.status()["accumulators"][0]["required"] == 2)
                assert server.status()["accumulators"][0]["count"] == 1
                sess.run(apply)
                assert taken.result() == 1.0
    finally:
        server.stop()


def test_a_disk_that_is_nearly_full_is_found() -> None:
    disk = {"folder": "/data", "free_bytes": 3 << 20, "total_bytes": 100 << 20}
    (said,) = told({"worker:0": status(disk=disk)})
    assert "under /data is nearly full: 3 MiB of 100 MiB" in said
