"""What idle workers cost a ps: the counts of one worker's step, with and without them.

An idle worker has met the ps as every worker does, and a session that has run a step on it, and
does nothing any more. All of them are here, in one process. Nothing that a step costs the ps may
depend on how many there are: Python calls, threads that are woken, messages, bytes.

    python benchmarks/idle_workers.py [--idle 200] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from typing import Any

from counted_work import CASES, QUIET, Cluster, PsProcess, get_ready

WARM_STEPS, STEPS = 10, 25


class IdleWorkers:
    """Workers that have met a ps, and a session for each; they hold what workers hold.

    Args:
      address: Where the ps is.
      target: A worker of its cluster; the sessions are its master's.
      count: How many.
    """

    def __init__(self, address: str, target: str, count: int) -> None:
        tf = get_ready()
        from millrace.rpc.listener import dial
        from millrace.rpc.security import Security
        from millrace.rpc.service import Connection

        self._held: list[Any] = []
        security, host = Security(), address.rpartition(":")[0]
        with tf.Graph().as_default():
            with tf.device("/job:ps/task:0"):
                value = tf.constant(1.0) + tf.constant(2.0)
            for i in range(count):
                greeting = {"task": f"/job:worker/replica:0/task:{i + 1}", "incarnation": i + 1}
                greeting |= {"address": f"{host}:{i + 1}", "protocol": "grpc+fast"}
                connection = Connection(address, security)
                answer = json.loads(connection.meet(json.dumps(greeting).encode(), 60))
                proof = security.proof(bytes.fromhex(answer["ticket"]))
                self._held += [connection, dial((host, answer["fast_port"]), proof, 60)]
                session = tf.Session(target)
                session.run(value)
                self._held.append(session)

    def close(self) -> None:
        for each in self._held:
            each.close()


def count_steps(ps: PsProcess, cluster: Cluster) -> dict[str, float]:
    """Medians of what a step costs the ps."""
    for _ in range(WARM_STEPS):
        cluster.step()
    found: dict[str, list[int]] = {}
    before, woken = cluster.count(), ps.ask("switches")
    for _ in range(STEPS):
        cluster.step()
        after, then = cluster.count(), ps.ask("switches")
        for name in ("ps_python_calls", "messages", "bytes"):
            found.setdefault(name, []).append(after[name] - before[name])
        found.setdefault("ps_threads_woken", []).append(then - woken)
        before, woken = after, then
    return {name: statistics.median(values) for name, values in found.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--idle", type=int, default=200, help="how many (default 200)")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    options = parser.parse_args()
    os.environ.update(QUIET)
    ps = PsProcess()
    try:
        cluster = Cluster(ps, CASES["mlp_async_1_1"])
        alone = count_steps(ps, cluster)
        target = f"grpc://{cluster.hosts['worker'][0]}"
        idle = IdleWorkers(cluster.hosts["ps"][0], target, options.idle)
        among = count_steps(ps, cluster)
        idle.close()
        cluster.close()
    finally:
        ps.close()
    if options.json:
        print(json.dumps({"alone": alone, "among": among}))
        return 0
    print(f"{'a step':<20}{'alone':>12}{f'among {options.idle} idle':>18}")
    for name in alone:
        print(f"{name.replace('_', ' '):<20}{alone[name]:>12,}{among[name]:>18,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
