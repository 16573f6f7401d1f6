"""Which tasks a session has, by its device filters and by the devices of its graph."""

from __future__ import annotations

import pytest

from millrace.core.cluster_spec import ClusterSpec
from millrace.server.tasks import filtered_tasks, task_name, tasks_named

CLUSTER = ClusterSpec({"ps": ["p0:1", "p1:1"], "worker": {0: "w0:1", 7: "w7:1"}})


@pytest.mark.parametrize(
    ("filters", "addresses"),
    [
        ([], {"p0:1", "p1:1", "w0:1", "w7:1"}),
        (["/job:ps"], {"p0:1", "p1:1"}),
        (["/job:ps", "/job:worker/task:7"], {"p0:1", "p1:1", "w7:1"}),
        (["/job:gone"], set()),
    ],
)
def test_filters_choose_tasks(filters: list[str], addresses: set[str]) -> None:
    assert {*filtered_tasks(CLUSTER, filters).values()} == addresses


def test_only_devices_that_name_a_task_in_full_count() -> None:
    devices = ["/job:ps/task:1/cpu:0", "/job:worker", "", "/job:ps/task:1", "/no such device"]
    assert tasks_named(devices) == {task_name("ps", 1)}
