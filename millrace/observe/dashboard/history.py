"""What is known of a job over time: figures per task, who waits for whom, what has happened.

Pure: the answers of the tasks and the time go in (`History.add`), plain values for the page come
out (`History.state`). Rates are differences of two answers; a task that was restarted starts over.
"""

from __future__ import annotations

import dataclasses
import re
import statistics
from collections import deque
from collections.abc import Mapping
from typing import Any

from millrace.observe import doctor
from millrace.observe.dashboard.series import Series

#: How many looks the strips and small curves of a task show.
LOOKS = 60
_EVENTS = 300
#: Variables of a ps that are named, and scopes of a task.
_NAMED = 8
#: So many times the median is a straggler's own time per step.
_STRAGGLER = 1.5
#: At so many looks in a row: a checkpoint makes nobody a straggler.
_SLOW_LOOKS = 8
#: More tasks than these are told as one event when they come up together.
_MANY = 4
_SHORT = re.compile(r"/job:(\w+)(?:/replica:\d+)?/task:(\d+)")
#: What a task was seen to do.
COMPUTES, WAITS, RESTS, SILENT = "c", "w", "i", "x"


@dataclasses.dataclass(frozen=True)
class TaskFacts:
    """What the launcher knows of a task: where it serves, its process' state, its log."""

    address: str = ""
    state: str = ""
    restarts: int = 0
    log: str = ""


@dataclasses.dataclass
class _TaskHistory:
    """One task.

    Attributes:
      status: Its last answer; empty if it gave none when it was asked last.
      rates: What grew, per second, over the last looks.
      waits: Seconds waited and bytes received, per second, by task.
    """

    facts: TaskFacts = dataclasses.field(default_factory=TaskFacts)
    status: dict[str, Any] = dataclasses.field(default_factory=dict)
    why_silent: str = ""
    was_up: bool = False
    incarnation: int | None = None
    last_event: int = 0
    looks: deque[tuple[float, dict[str, Any]]] = dataclasses.field(
        default_factory=lambda: deque(maxlen=6)
    )
    rates: dict[str, float] = dataclasses.field(default_factory=dict)
    waits: dict[str, tuple[float, float]] = dataclasses.field(default_factory=dict)
    #: At how many looks in a row its own time per step was long.
    slow_looks: int = 0
    strip: deque[str] = dataclasses.field(default_factory=lambda: deque(maxlen=LOOKS))
    curve: deque[float] = dataclasses.field(default_factory=lambda: deque(maxlen=LOOKS))


class History:
    """Everything that the page shows of the tasks."""

    def __init__(self) -> None:
        self._tasks: dict[str, _TaskHistory] = {}
        self._global_step: int | None = None
        self._steps = Series()
        self._step_rate = Series()
        self._recent: deque[tuple[float, int]] = deque(maxlen=6)
        self._events: deque[dict[str, Any]] = deque(maxlen=_EVENTS)
        self._earlier: dict[str, dict[str, Any]] = {}
        self._clocks: dict[str, float] = {}
        #: Tasks that have answered for the first time, at this look.
        self._new: list[str] = []
        #: The tasks that hold others up.
        self._slow: dict[str, str] = {}

    def add(
        self,
        now: float,
        facts: Mapping[str, TaskFacts],
        answers: Mapping[str, dict[str, Any] | str],
    ) -> None:
        """One look at all tasks.

        Args:
          now: In seconds since the epoch.
          facts: By task (``ps:0``).
          answers: The status of each that has an address, or why there is none.
        """
        self._earlier = {name: task.status for name, task in self._tasks.items() if task.status}
        for name, known in facts.items():
            task = self._tasks.setdefault(name, _TaskHistory())
            answer = answers.get(name, "")
            self._note_state(now, name, task, known)
            if isinstance(answer, dict):
                self._note_answer(now, name, task, answer)
            else:
                self._note_silence(now, name, task, answer)
        found = [t.status.get("global_step") for t in self._tasks.values()]
        self._slow = self._stragglers()
        self._tell_new(now)
        steps = [step for step in found if step is not None]
        if steps:
            self._note_step(now, max(steps))

    def _tell_new(self, now: float) -> None:
        """Tasks that are there for the first time: one event each, or one for many."""
        new, self._new = self._new, []
        if len(new) > _MANY:
            self.happened(now, f"{len(new)} tasks", "up", f"from {new[0]} to {new[-1]}")
            return
        for text in new:
            name, _, place = text.partition(" ")
            self.happened(now, name, "up", place)

    def happened(self, now: float, task: str, kind: str, text: str) -> None:
        """Something that people should see."""
        self._events.append({"time": now, "task": task, "kind": kind, "text": text})

    # -- One task --------------------------------------------------------------------------

    def _note_state(self, now: float, name: str, task: _TaskHistory, facts: TaskFacts) -> None:
        before, task.facts = task.facts, facts
        if facts.restarts > before.restarts:
            self.happened(now, name, "restarted", f"for the {_ordinal(facts.restarts)} time")
        if facts.state == before.state or not before.state:
            return
        if facts.state.startswith("failed"):
            self.happened(now, name, "died", f"its process {facts.state}")
        elif facts.state == "done":
            self.happened(now, name, "done", "its process has ended well")

    def _note_answer(
        self, now: float, name: str, task: _TaskHistory, answer: dict[str, Any]
    ) -> None:
        if answer["incarnation"] != task.incarnation:
            if task.incarnation is not None:
                self.happened(now, name, "up", "again, as a new incarnation")
            else:
                self._new.append(f"{name} at {answer['address']}")
            task.incarnation, task.last_event = answer["incarnation"], 0
            task.looks.clear()
        elif not task.was_up:
            self.happened(now, name, "up", "it answers again")
        for event in answer.get("events", ()):
            if event["number"] > task.last_event:
                task.last_event = event["number"]
                self.happened(event["time"], name, event["kind"], event["text"])
        task.status, task.was_up, task.why_silent = answer, True, ""
        task.looks.append((now, answer))
        self._clocks[name] = answer.get("time", now) - now
        _compare(task)
        doing = answer.get("doing") or ()
        waits = [each["waits_for"] for each in doing]
        if waits:
            task.strip.append(WAITS if all(waits) else COMPUTES)
        else:
            # Of a server there is no step of its own: its load, in tenths of a core.
            load = task.rates.get("cpu", 0.0)
            task.strip.append(str(min(9, int(load * 10))) if load >= 0.02 else RESTS)
        task.curve.append(round(task.rates.get("steps", 0.0), 2))

    def _note_silence(self, now: float, name: str, task: _TaskHistory, why: str) -> None:
        if task.was_up and not task.facts.state.startswith(("failed", "done")):
            self.happened(now, name, "lost", why or "it does not answer any more")
        task.status, task.was_up, task.why_silent = {}, False, why
        task.looks.clear()
        task.rates, task.waits = {}, {}
        task.strip.append(RESTS if task.incarnation is None else SILENT)  # or it only starts
        task.curve.append(0.0)

    def _note_step(self, now: float, step: int) -> None:
        if self._recent and step < self._recent[-1][1]:
            self.happened(now, "", "back", f"the global step went back to {step}")
            self._recent.clear()
        self._global_step = step
        self._recent.append((now, step))
        self._steps.add(now, step)
        if len(self._recent) > 1:
            self._step_rate.add(now, self._rate())

    def _rate(self) -> float:
        if len(self._recent) < 2:
            return 0.0
        (start, first), (end, last) = self._recent[0], self._recent[-1]
        return (last - first) / max(end - start, 1e-9)

    # -- All of them -----------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """What the page shows, in plain values."""
        return {
            "global_step": self._global_step,
            "steps_per_second": round(self._rate(), 2),
            "steps": self._steps.points(),
            "rates": self._step_rate.points(),
            "tasks": [self._row(name, task) for name, task in self._tasks.items()],
            "ps": self._loads(),
            "matrix": self._matrix(),
            "placement": [
                {"task": name, "scopes": dict(list(task.status["placement"].items())[:_NAMED])}
                for name, task in self._tasks.items()
                if task.status.get("placement")
            ],
            "events": list(self._events)[::-1],
            "findings": [str(finding) for finding in self._findings()],
        }

    def logs(self) -> dict[str, str]:
        """The log of each task."""
        return {name: task.facts.log for name, task in self._tasks.items()}

    def _findings(self) -> list[doctor.Finding]:
        running = {
            name: task
            for name, task in self._tasks.items()
            if task.facts.address and task.facts.state not in ("done", "stopped")
        }
        return doctor.findings(
            doctor.Examination(
                {name: task.status for name, task in running.items() if task.status},
                self._earlier,
                {n: t.why_silent for n, t in running.items() if not t.status and t.why_silent},
                {name: task.facts.address for name, task in self._tasks.items()},
                self._clocks,
            )
        )

    def _flow(self, name: str) -> tuple[float, float]:
        """Bytes that a task sends and receives per second.

        Channels do not count what passes in shared memory; what steps have received does.
        """
        task = self._tasks[name]
        taken = sum(size for _, size in task.waits.values())
        given = sum(other.waits.get(name, (0.0, 0.0))[1] for other in self._tasks.values())
        return max(task.rates.get("sent", 0.0), given), max(task.rates.get("received", 0.0), taken)

    def _row(self, name: str, task: _TaskHistory) -> dict[str, Any]:
        status, rates = task.status, task.rates
        sent, received = self._flow(name)
        return {
            "task": name,
            "state": task.facts.state or ("running" if status else "unknown"),
            "up": bool(status),
            "address": task.facts.address,
            "uptime": status.get("uptime_seconds"),
            "restarts": task.facts.restarts,
            "steps": status.get("steps"),
            "rate": rates.get("steps", 0.0),
            "cpu": rates.get("cpu", 0.0),
            "memory": status.get("process", {}).get("memory_bytes", 0),
            "sent": sent,
            "received": received,
            "doing": self._doing(name, task),
            "straggler": self._slow.get(name, ""),
            "strip": "".join(task.strip),
            "curve": list(task.curve),
        }

    def _doing(self, name: str, task: _TaskHistory) -> str:
        """What a task does now, in words."""
        status = task.status
        if not status:
            return task.why_silent if task.facts.state in ("", "running") else ""
        doing = status.get("doing") or ()
        if not doing:
            running = status.get("running_steps", 0)
            if running:
                return f"serves {running} step{'s' * (running > 1)}"
            return "serves" if name.startswith("ps:") or not task.waits else "between steps"
        waits = [each for each in doing if each["waits_for"]]
        if len(waits) < len(doing):
            return "computes"
        words = _short(waits[0]["waits_for"])
        for peer in waits[0]["tasks"]:
            other = self._tasks.get(_short(peer))
            why = other and other.status.get("partitions", {}).get(str(waits[0]["step"]))
            if why:
                words += f" · {_short(peer)} waits for {_short(why)}"
        return f"waits for {words}"

    def _loads(self) -> list[dict[str, Any]]:
        found = []
        for name, task in self._tasks.items():
            variables = task.status.get("variables", ())
            if not name.startswith("ps:"):
                continue
            sent, received = self._flow(name)
            largest = sorted(variables, key=lambda each: -each["bytes"])[:_NAMED]
            found.append(
                {
                    "task": name,
                    "cpu": task.rates.get("cpu", 0.0),
                    "memory": task.status.get("process", {}).get("memory_bytes", 0),
                    "sent": sent,
                    "received": received,
                    "bytes": sum(each["bytes"] for each in variables),
                    "count": len(variables),
                    "variables": [
                        {k: each[k] for k in ("name", "shape", "dtype", "bytes")}
                        for each in largest
                    ],
                    "published": task.status.get("published", 0),
                    "queues": task.status.get("queues", [])[:_NAMED],
                    "rounds": task.status.get("accumulators", [])[:_NAMED],
                }
            )
        return found

    def _matrix(self) -> dict[str, Any]:
        rows = [name for name in self._tasks if not name.startswith(("ps:", "evaluator"))]
        columns = [name for name in self._tasks if name.startswith("ps:")]
        none = 0.0, 0.0
        cells = [
            [
                {
                    "down": self._tasks[row].waits.get(column, none)[1],
                    "up": self._tasks[column].waits.get(row, none)[1],
                    "waits": self._tasks[row].waits.get(column, none)[0],
                }
                for column in columns
            ]
            for row in rows
        ]
        return {"rows": rows, "columns": columns, "cells": cells}

    def _stragglers(self) -> dict[str, str]:
        """The tasks that hold others up, and why it is thought so.

        A task's own time per step is the time that passes less what it waits for others: of an
        asynchronous job's straggler it is long because it makes few steps, of a synchronous one's
        because it alone never waits.
        """
        own = {}
        for name, task in self._tasks.items():
            rate = task.rates.get("own_steps", 0.0)
            if not name.startswith("ps:") and rate > 0.0 and task.waits:
                waiting = min(1.0, max(seconds for seconds, _ in task.waits.values()))
                own[name] = (1.0 - waiting) / rate
        if len(own) < 2:
            return {}
        found = {}
        for name, seconds in own.items():
            task = self._tasks[name]
            others = statistics.median(each for other, each in own.items() if other != name)
            task.slow_looks = task.slow_looks + 1 if seconds > _STRAGGLER * others else 0
            if task.slow_looks >= _SLOW_LOOKS:
                found[name] = (
                    f"takes {_milliseconds(seconds)} of its own for a step, "
                    f"the others {_milliseconds(others)}"
                )
        return found


def _compare(task: _TaskHistory) -> None:
    """Rates, from the oldest look that is kept to the newest."""
    (start, old), (end, new) = task.looks[0], task.looks[-1]
    seconds = end - start
    if seconds <= 0:
        task.rates, task.waits = {}, {}
        return

    def grown(before: float, after: float) -> float:
        return max(0.0, after - before) / seconds

    def traffic(status: dict[str, Any], key: str) -> float:
        return float(sum(peer[key] for peer in status.get("traffic", {}).values()))

    task.rates = {
        "steps": grown(old["steps"], new["steps"]),
        "own_steps": grown(old.get("own_steps", 0), new.get("own_steps", 0)),
        "cpu": grown(
            old.get("process", {}).get("cpu_seconds", 0.0),
            new.get("process", {}).get("cpu_seconds", 0.0),
        ),
        "sent": grown(traffic(old, "bytes_sent"), traffic(new, "bytes_sent")),
        "received": grown(traffic(old, "bytes_received"), traffic(new, "bytes_received")),
    }
    nothing = {"seconds": 0.0, "num_bytes": 0}
    task.waits = {
        _short(peer): (
            grown(old.get("waits", {}).get(peer, nothing)["seconds"], after["seconds"]),
            grown(old.get("waits", {}).get(peer, nothing)["num_bytes"], after["num_bytes"]),
        )
        for peer, after in new.get("waits", {}).items()
    }


def _short(text: str) -> str:
    """Tasks in a text as people say them: ``ps:0``."""
    return _SHORT.sub(r"\1:\2", text)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _ordinal(number: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(number, f"{number}th")
