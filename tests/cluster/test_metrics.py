"""Metrics of servers that train."""

from __future__ import annotations

import re
import urllib.request

import millrace as tf
from millrace.observe.observation import METRICS_PORT, OBSERVED
from millrace.platform.ports import HeldPorts


def test_a_task_tells_its_steps_queues_and_what_it_waited_for(monkeypatch) -> None:
    monkeypatch.setenv(METRICS_PORT, "0")
    with HeldPorts(2) as held:
        cluster = {"ps": [held.addresses[0]], "worker": [held.addresses[1]]}
        servers = [tf.train.Server(cluster, job, 0) for job in ("ps", "worker")]
        try:
            with tf.Graph().as_default():
                with tf.device("/job:ps"):
                    step = tf.train.get_or_create_global_step()
                    queue = tf.FIFOQueue(5, tf.int64, shapes=[[]], shared_name="numbers")
                    add = queue.enqueue(step.assign_add(1))
                with tf.Session(servers[1].target) as sess:
                    sess.run(step.initializer)
                    for _ in range(3):
                        sess.run([add, step])
            texts = []
            for server in servers:
                address = server.status()["metrics"]
                with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
                    texts.append(answer.read().decode())
                with urllib.request.urlopen(f"http://{address}/readyz", timeout=10) as answer:
                    assert answer.read() == b"ready\n"
        finally:
            for server in servers:
                server.stop()
            OBSERVED.enabled = False
    ps, worker = texts
    assert "millrace_global_step 3.0" in ps
    assert 'millrace_queue_size{queue="numbers"} 3.0' in ps
    count = re.search(r"millrace_step_seconds_count (\d+)", worker)
    assert count is not None and int(count[1]) >= 4
    assert re.search(r'millrace_messages_received_total\{peer="/job:ps.*"\} [1-9]', worker)
