"""What is wrong with a job, in sentences, and what to do about it.

`examine` asks the tasks; the rules only look at what it found, so that each is tried without a
cluster. A rule returns findings, or nothing when all is well. To add one, write it and name it in
RULES.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from millrace.platform.reachability import why_unreachable

#: A share of the bytes of all variables that one of several ps should not have.
_LION_SHARE = 2 / 3
#: Below this nobody minds who keeps what.
_SMALL_BYTES = 10 << 20
_CLOCK_SECONDS = 2.0
#: Sets of shapes that a stage may meet before it is said to meet new ones all the time.
_MANY_SHAPES = 16
_FULL_DISK = 0.05


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that is wrong."""

    what: str
    advice: str

    def __str__(self) -> str:
        return f"{self.what}. {self.advice}"


@dataclasses.dataclass
class Examination:
    """What was found.

    Attributes:
      statuses: By task (``ps:0``), of those that answer, a moment after `earlier`.
      earlier: The same, before.
      silent: Why a task does not answer, by task.
      addresses: By task.
      clocks: How many seconds each task's clock is ahead of this machine's.
    """

    statuses: dict[str, dict[str, Any]]
    earlier: dict[str, dict[str, Any]]
    silent: dict[str, str]
    addresses: dict[str, str]
    clocks: dict[str, float]


def examine(
    addresses: Mapping[str, str],
    ask_all: Callable[[Mapping[str, str]], dict[str, dict[str, Any] | str]],
    seconds: float = 1.0,
) -> Examination:
    """Asks all tasks, twice.

    Args:
      addresses: By task.
      ask_all: Gives the status of each, or why there is none.
      seconds: How long between the two times.
    """
    first = ask_all(addresses)
    time.sleep(seconds)
    now = time.time()
    second = ask_all(addresses)
    after = time.time()
    statuses = {name: found for name, found in second.items() if isinstance(found, dict)}
    silent = {
        name: why_unreachable(addresses[name]) or found
        for name, found in second.items()
        if isinstance(found, str)
    }
    clocks = {}
    for name, found in statuses.items():
        if "time" in found:  # read somewhere between the question and the answer
            clocks[name] = max(found["time"] - after, min(found["time"] - now, 0.0))
    earlier = {name: found for name, found in first.items() if isinstance(found, dict)}
    return Examination(statuses, earlier, silent, dict(addresses), clocks)


def findings(found: Examination) -> list[Finding]:
    """Everything that is wrong, the worst first."""
    return [finding for rule in RULES for finding in rule(found)]


def _tasks_that_are_silent(found: Examination) -> Iterator[Finding]:
    for name, why in found.silent.items():
        if "does not resolve" in why:
            advice = (
                "Check the name in the cluster's description, and that this machine's resolver "
                "knows it; on Kubernetes, that the headless Service exists"
            )
        elif "refused" in why:
            look = f"look at `millrace logs --task {name}`"
            advice = f"Its process has not come so far, or has ended: {look}"
        else:
            advice = "Check that the machine is up, and that a firewall lets its port through"
        yield Finding(f"{name} ({found.addresses[name]}) is not up: {why}", f"{advice}.")


def _clocks_that_differ(found: Examination) -> Iterator[Finding]:
    for name, ahead in found.clocks.items():
        if abs(ahead) > _CLOCK_SECONDS:
            side = "ahead of" if ahead > 0 else "behind"
            yield Finding(
                f"The clock of {name} is {abs(ahead):.0f} s {side} this machine's",
                "Leases of elections and times in logs depend on it: let chrony or ntpd set it.",
            )


def _versions_that_differ(found: Examination) -> Iterator[Finding]:
    versions: dict[str, list[str]] = {}
    for name, status in found.statuses.items():
        versions.setdefault(status.get("version", "before 0.3"), []).append(name)
    if len(versions) > 1:
        told = ", ".join(f"{'/'.join(names)} {version}" for version, names in versions.items())
        yield Finding(
            f"The tasks run different versions of Millrace: {told}",
            "Install the same version everywhere, and restart those that differ.",
        )


def _a_ps_with_most_of_the_load(found: Examination) -> Iterator[Finding]:
    loads = {
        name: sum(variable["bytes"] for variable in status["variables"])
        for name, status in found.statuses.items()
        if name.startswith("ps:")
    }
    total = sum(loads.values())
    if len(loads) < 2 or total < _SMALL_BYTES:
        return
    name = max(loads, key=lambda each: loads[each])
    if loads[name] < _LION_SHARE * total:
        return
    largest = max(found.statuses[name]["variables"], key=lambda each: each["bytes"])
    share = f"{name} keeps {loads[name] / total:.0%} of the {total >> 20} MiB of variables"
    if largest["bytes"] > total / 2:
        yield Finding(
            f"{share}, most of it in the one variable {largest['name']} {largest['shape']}",
            f"Split it: tf.get_variable(..., partitioner=tf.fixed_size_partitioner({len(loads)})).",
        )
        return
    yield Finding(
        share,
        "Place by size: tf.train.replica_device_setter(cluster=..., ps_strategy="
        f"tf.contrib.training.GreedyLoadBalancingStrategy({len(loads)}, "
        "tf.contrib.training.byte_size_load_fn)).",
    )


def _workers_without_input(found: Examination) -> Iterator[Finding]:
    for name, status in found.statuses.items():
        for queue in status.get("queues", ()):
            if queue["dequeues_waiting"] and not queue["was_fed"]:
                yield Finding(
                    f"Steps on {name} wait for the queue {queue['name']}, to which nothing was "
                    "ever added",
                    "Nobody has started its queue runners: call "
                    "tf.train.start_queue_runners(sess), or train in a MonitoredSession, which "
                    "does.",
                )


def _steps_that_compile(found: Examination) -> Iterator[Finding]:
    for name, status in found.statuses.items():
        before = {
            each["op"]: each["shapes"]
            for each in found.earlier.get(name, {}).get("changing_shapes", ())
        }
        for each in status.get("changing_shapes", ()):
            if each["shapes"] >= _MANY_SHAPES and each["shapes"] > before.get(each["op"], 0):
                yield Finding(
                    f"On {name} the operations around {each['op']} meet new shapes all the time "
                    f"({each['shapes']} so far), and run op by op or are compiled for each",
                    "Pad or bucket the batches to a few lengths (tf.data's padded_batch or "
                    "bucket_by_sequence_length), and drop the last partial batch.",
                )


def _rounds_that_wait_for_the_departed(found: Examination) -> Iterator[Finding]:
    left = sorted({task for status in found.statuses.values() for task in status.get("left", ())})
    if not left:
        return
    workers = [name for name in found.addresses if not name.startswith("ps:")]
    gone = [name for name in workers if found.addresses[name] in left] or left
    for name, status in found.statuses.items():
        before = {
            each["name"]: each for each in found.earlier.get(name, {}).get("accumulators", ())
        }
        for each in status.get("accumulators", ()):
            old = before.get(each["name"], {})
            stands = (old.get("step"), old.get("count")) == (each["step"], each["count"])
            if each.get("required", 0) > each["count"] and stands and each["count"]:
                yield Finding(
                    f"The synchronous round on {name} has {each['count']} of {each['required']} "
                    f"gradients and waits, while {', '.join(gone)} has left the job",
                    "Start that worker again, or give SyncReplicasOptimizer a smaller "
                    "replicas_to_aggregate than there are workers.",
                )
                return


def _disks_that_are_full(found: Examination) -> Iterator[Finding]:
    for name, status in found.statuses.items():
        disk = status.get("disk")
        if disk and disk["free_bytes"] < _FULL_DISK * disk["total_bytes"]:
            yield Finding(
                f"The disk of {name} under {disk['folder']} is nearly full: "
                f"{disk['free_bytes'] >> 20} MiB of {disk['total_bytes'] >> 20} MiB are free",
                "A checkpoint that does not fit ends the training: remove old ones, or keep fewer "
                "(max_to_keep).",
            )


#: The worst first.
RULES: tuple[Callable[[Examination], Iterator[Finding]], ...] = (
    _tasks_that_are_silent,
    _versions_that_differ,
    _disks_that_are_full,
    _rounds_that_wait_for_the_departed,
    _workers_without_input,
    _a_ps_with_most_of_the_load,
    _steps_that_compile,
    _clocks_that_differ,
)
