"""A master of TensorFlow drives tasks of Millrace: worker 0 is TensorFlow's, the others are ours.

TensorFlow's master cuts the graph, registers the parts, runs them, and its worker and ours fetch
values from each other, all with TensorFlow's own calls and keys.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.interop.conftest import Cluster
from tests.interop.test_stock_client import _agree

CASES = {
    "training.py": ["mlp_adam_ref", "mlp_momentum_resource", "embedding_adagrad"],
    "control_flow.py": (
        "cond_over_tasks_of_v1 cond_over_tasks_of_v2 cond_that_assigns_of_v1 "
        "cond_on_a_resource_of_v1 cond_on_a_resource_of_v2 "
        "while_over_tasks_of_v1 while_over_tasks_of_v2 while_that_assigns_of_v1 "
        "map_and_scan_of_v1 old_functions"
    ).split(),
    # Not the gradient: where weights are read in a loop, TensorFlow's own tasks wait for ever.
    "split_loops.py": (
        "writes_resource nested_resource in_a_branch_ref in_a_branch_resource "
        "queues_of_two_tasks an_error_in_an_iteration"
    ).split(),
    "sessions.py": (
        "strings_and_all_types queues save_and_restore synchronous_replicas "
        "several_clients_share_variables random_numbers_of_a_seed_repeat"
    ).split(),
}


@pytest.fixture(scope="module")
def mixed_cluster(
    tmp_path_factory: pytest.TempPathFactory, tensorflow_python: str
) -> Iterator[Cluster]:
    """Two ps and two workers, of which the first is TensorFlow's."""
    made = Cluster(
        {"ps": 2, "worker": 2}, tmp_path_factory.mktemp("mixed"), (tensorflow_python, "worker")
    )
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def outcomes(run_tensorflow: Callable[..., Any], mixed_cluster: Cluster) -> Callable[[str], Any]:
    """What a program reported; it runs once."""
    known: dict[str, Any] = {}

    def outcome(script: str) -> Any:
        if script not in known:
            addresses = json.dumps(mixed_cluster.addresses)
            known[script] = run_tensorflow(script, addresses, *CASES[script])
        return known[script]

    return outcome


@pytest.mark.parametrize(
    ("script", "case"), [(script, case) for script, cases in CASES.items() for case in cases]
)
def test_a_program_gets_what_tensorflow_gives_by_itself(
    script: str, case: str, outcomes: Callable[[str], Any], mixed_cluster: Cluster
) -> None:
    here, there = (outcomes(script)[case][site] for site in ("here", "there"))
    assert "value" in here, f"The case is wrong:\n{here['trace']}"
    assert "value" in there, f"{there['trace']}\n{mixed_cluster.logs()}"
    assert _agree(here["value"], there["value"]), (
        f"TensorFlow by itself: {here['value']}\non a mixed cluster: {there['value']}"
    )
