"""What a task's steps do at this moment, and where its graphs' nodes are: for people who look.

Nothing is counted or timed for it while nobody asks: it is read off what the master and the worker
keep anyway.
"""

from __future__ import annotations

from collections import Counter

from millrace.core.value import JsonObject
from millrace.server.master import Master
from millrace.server.worker import Worker

#: So many steps, partitions and scopes are told, not all of a server with thousands.
_TOLD = 32


def of(master: Master, worker: Worker) -> JsonObject:
    """In plain values.

    ``doing`` has the steps whose master is here: what each waits for, empty while it computes.
    ``partitions`` has what others have asked for, by the step's number. ``placement`` counts the
    nodes of all graphs by their outermost scope.
    """
    waits = worker.waits_of_steps()
    steps = []
    for number, pending in list(master.pending.items())[:_TOLD]:
        tasks = [] if pending.step.runs_at_home else list(pending.step.waiting.values())
        words = waits.pop(number, "") or (f"{', '.join(tasks)} to finish" if tasks else "")
        steps.append({"step": number, "waits_for": words, "tasks": tasks})
    partitions = {str(number): words for number, words in list(waits.items())[:_TOLD]}
    return {"doing": steps, "partitions": partitions, "placement": _placement(worker)}


def _placement(worker: Worker) -> dict[str, int]:
    names = {node.name for graph in list(worker.sessions.graphs.values()) for node in graph.nodes}
    counts = Counter(name.partition("/")[0] for name in names)
    return dict(counts.most_common(_TOLD))
