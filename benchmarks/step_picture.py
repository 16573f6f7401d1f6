"""The picture of one step: a lane for each task, time to the right, messages between them."""

from __future__ import annotations

import pathlib

from step_trace import TracedStep
from svg import COLORS, FAINT, INK, Drawing, nice_steps

#: What is painted how; the order is that of the legend.
KINDS = {"XLA": COLORS[0], "send": COLORS[1], "host op": COLORS[2], "wait": "#e9edf3"}


def draw(step: TracedStep, title: str, path: pathlib.Path) -> None:
    """One step: a lane for each task, time to the right, messages between the lanes."""
    tasks = sorted({stage.task for stage in step.stages}, reverse=True)
    left, right, top, lane = 130.0, 940.0, 70.0, 110.0
    drawing = Drawing(960, int(top + lane * len(tasks) + 60), title)
    drawing.text(20, 28, title, bold=True, size=15)
    marks = nice_steps(step.micros, 6)

    def x_of(micros: float) -> float:
        return left + (right - left) * micros / marks[-1]

    bottom = top + lane * len(tasks) - 20
    for mark in marks:
        drawing.line([(x_of(mark), top - 10), (x_of(mark), bottom)], FAINT)
        drawing.text(x_of(mark), bottom + 18, f"{mark:g}", anchor="middle", size=12)
    drawing.text(right, bottom + 36, "microseconds", anchor="end", size=12)
    rows = {task: top + 20 + lane * i for i, task in enumerate(tasks)}
    height = 44.0
    for task, y in rows.items():
        drawing.text(20, y + 27, task.removeprefix("/job:").replace("/task:", " "), bold=True)
        for stage in sorted(step.stages, key=lambda s: s.kind != "wait"):
            if stage.task != task:
                continue
            wait = stage.kind == "wait"
            at, tall = (y + 12, height - 24) if wait else (y, height)
            width = max(1.0, x_of(stage.end) - x_of(stage.start))
            micros = stage.end - stage.start
            about = f"{stage.name}: {micros:.0f} µs"
            drawing.box(x_of(stage.start), at, width, tall, KINDS[stage.kind], about)
            if not wait and width > 44:
                middle = x_of(stage.start) + width / 2
                drawing.text(middle, y + 20, stage.kind, anchor="middle", size=11, color="#ffffff")
                drawing.text(
                    middle, y + 34, f"{micros:.0f}", anchor="middle", size=11, color="#ffffff"
                )
    ends = {s.name: s for s in step.stages if s.kind == "wait"}
    for stage in step.stages:
        there = ends.get(stage.name.replace("send", "receive"))
        if stage.kind != "send" or there is None or there.task == stage.task:
            continue
        down = rows[there.task] > rows[stage.task]
        start = (x_of(stage.end), rows[stage.task] + (height if down else 0))
        end = (x_of(there.end), rows[there.task] + (0 if down else height))
        drawing.line([start, end], INK, 1.5)
        drawing.dot(*end, INK, f"{stage.name} has arrived")
    worker = rows["/job:worker/task:0"]
    drawing.line([(x_of(0), worker - 6), (x_of(step.micros), worker - 6)], INK, 2)
    drawing.text(x_of(0), worker - 12, f"session.run: {step.micros:.0f} µs", size=12)
    for i, (kind, color) in enumerate(KINDS.items()):
        drawing.box(left + 130 * i, bottom + 30, 14, 14, color)
        drawing.text(left + 130 * i + 20, bottom + 42, kind)
    drawing.save(path)
