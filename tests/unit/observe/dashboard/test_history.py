"""What the page is told, from what tasks answer: no task, no clock."""

from __future__ import annotations

from typing import Any

from millrace.observe.dashboard.history import History, TaskFacts

NAMES = ("ps:0", "worker:0", "worker:1")


def answer(name: str, at: float, **facts: Any) -> dict[str, Any]:
    job, _, index = name.partition(":")
    status: dict[str, Any] = {
        "task": f"/job:{job}/replica:0/task:{index}",
        "address": f"{job}-{index}:2222",
        "incarnation": 7,
        "uptime_seconds": at,
        "version": "1",
        "time": at,
        "steps": int(100 * at),
        "own_steps": int(100 * at),
        "global_step": int(200 * at) if job == "ps" else None,
        "running_steps": 0,
        "process": {"cpu_seconds": 0.5 * at, "memory_bytes": 1 << 20},
        "variables": [],
        "traffic": {},
        "waits": {},
        "doing": [],
        "events": [],
        "left": [],
    }
    return {**status, **facts}


def facts(**states: str) -> dict[str, TaskFacts]:
    return {
        name: TaskFacts(f"{name.replace(':', '-')}:2222", states.get(name[:2], "running"))
        for name in NAMES
    }


def watched(seconds: int, **each: Any) -> History:
    """A job seen once a second; `each` gives what a task (``worker_0``) says besides, by time."""
    history = History()
    for at in range(1, seconds + 1):
        said = {
            name: answer(name, at, **each.get(name.replace(":", "_"), lambda at: {})(at))
            for name in NAMES
        }
        history.add(at, facts(), said)
    return history


def row(history: History, name: str) -> dict[str, Any]:
    return next(task for task in history.state()["tasks"] if task["task"] == name)


def kinds(history: History) -> list[tuple[str, str]]:
    return [(event["task"], event["kind"]) for event in history.state()["events"]][::-1]


def test_rates_are_differences_of_answers() -> None:
    state = watched(10).state()
    assert state["global_step"] == 2000 and state["steps_per_second"] == 200
    assert state["rates"][-1] == (10, 200)
    worker = next(task for task in state["tasks"] if task["task"] == "worker:0")
    assert (worker["rate"], worker["cpu"], worker["memory"]) == (100, 0.5, 1 << 20)


def test_a_worker_that_makes_fewer_steps_is_a_straggler() -> None:
    def ps(seconds: float) -> dict[str, Any]:
        return {"waits": {"/job:ps/replica:0/task:0": {"seconds": seconds, "num_bytes": 0}}}

    history = watched(
        20,
        worker_0=lambda at: ps(0.5 * at),
        worker_1=lambda at: {**ps(0.1 * at), "own_steps": 20 * at},
    )
    assert row(history, "worker:0")["straggler"] == ""
    assert (
        "45.0 ms of its own for a step, the others 5.0 ms" in row(history, "worker:1")["straggler"]
    )


def test_the_one_that_never_waits_is_the_straggler_of_synchronous_rounds() -> None:
    def waits(share: float) -> Any:
        peer = "/job:ps/replica:0/task:0"
        return lambda at: {"waits": {peer: {"seconds": share * at, "num_bytes": 0}}}

    history = watched(20, worker_0=waits(0.9), worker_1=waits(0.05))
    assert row(history, "worker:0")["straggler"] == "" != row(history, "worker:1")["straggler"]


def test_a_short_hiccup_makes_nobody_a_straggler() -> None:
    def ps(at: float) -> dict[str, Any]:
        steps = 100 * at if at < 18 else 1700
        peer = "/job:ps/replica:0/task:0"
        return {"waits": {peer: {"seconds": 0.1 * at, "num_bytes": 0}}, "own_steps": steps}

    assert row(watched(20, worker_1=ps, worker_0=ps), "worker:1")["straggler"] == ""


def test_what_a_task_waits_for_is_told_with_what_the_other_waits_for() -> None:
    history = watched(
        2,
        worker_0=lambda at: {
            "doing": [
                {
                    "step": 9,
                    "waits_for": "/job:ps/replica:0/task:0 to finish",
                    "tasks": ["/job:ps/replica:0/task:0"],
                }
            ]
        },
        worker_1=lambda at: {"doing": [{"step": 8, "waits_for": "", "tasks": []}]},
        ps_0=lambda at: {"partitions": {"9": "sync_token_q_Dequeue (elements)"}},
    )
    assert row(history, "worker:0")["doing"] == (
        "waits for ps:0 to finish · ps:0 waits for sync_token_q_Dequeue (elements)"
    )
    assert row(history, "worker:1")["doing"] == "computes"
    assert row(history, "worker:0")["strip"] == "ww" and row(history, "worker:1")["strip"] == "cc"
    assert row(history, "ps:0")["strip"] == "i5"  # half a core


def test_bytes_between_tasks_are_what_steps_received() -> None:
    received = {"seconds": 0.0, "num_bytes": 0}
    history = watched(
        5,
        worker_1=lambda at: {
            "waits": {"/job:ps/replica:0/task:0": {"seconds": 0.25 * at, "num_bytes": 1000 * at}}
        },
        ps_0=lambda at: {
            "waits": {"/job:worker/replica:0/task:1": {**received, "num_bytes": 10 * at}}
        },
    )
    matrix = history.state()["matrix"]
    assert matrix["rows"] == ["worker:0", "worker:1"] and matrix["columns"] == ["ps:0"]
    assert matrix["cells"][1] == [{"down": 1000, "up": 10, "waits": 0.25}]
    assert row(history, "ps:0")["sent"] == 1000 and row(history, "ps:0")["received"] == 10


def test_death_restart_and_what_tasks_tell_are_events() -> None:
    history = watched(3)
    saved = {"number": 1, "time": 3.5, "kind": "saved", "text": "model.ckpt-5"}
    history.add(
        4,
        {**facts(), "worker:1": TaskFacts("worker-1:2222", "failed (1)")},
        {
            "ps:0": answer("ps:0", 4),
            "worker:0": answer("worker:0", 4, events=[saved]),
            "worker:1": "nothing listens there",
        },
    )
    again = {**facts(), "worker:1": TaskFacts("worker-1:2222", "running", 1)}
    said = {name: answer(name, 5) for name in NAMES[:2]}
    said["worker:0"]["events"] = [saved]  # told once, however often it is said
    history.add(5, again, {**said, "worker:1": answer("worker:1", 5, incarnation=8)})
    history.add(6, again, {**said, "ps:0": "it does not answer"})
    assert kinds(history)[3:] == [
        ("worker:0", "saved"),
        ("worker:1", "died"),
        ("worker:1", "restarted"),
        ("worker:1", "up"),
        ("ps:0", "lost"),
        ("worker:1", "lost"),
    ]


def test_a_global_step_that_goes_back_is_an_event() -> None:
    history = watched(3)
    history.add(4, facts(), {name: answer(name, 4) for name in NAMES} | {"ps:0": answer("ps:0", 1)})
    assert ("", "back") in kinds(history) and history.state()["global_step"] == 200


def test_what_the_doctor_finds_is_shown() -> None:
    history = watched(3)
    history.add(4, facts(), {"ps:0": "nothing listens at ps-0:2222 (connection refused)"})
    assert any("ps:0" in text and "not up" in text for text in history.state()["findings"])
