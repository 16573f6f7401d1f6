"""A stock TensorFlow client on a Millrace cluster gets what TensorFlow's own session gives it.

Each case of `programs/*.py` is a function that runs twice: in TensorFlow's own session in the
client's process, and on the tasks of the `cluster` fixture.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

_OPTIMIZERS = ("gradient_descent", "momentum", "adagrad", "adam", "rmsprop", "ftrl")
_OTHER_OPTIMIZERS = ("nesterov_momentum", "centered_rmsprop", "adadelta", "proximal_adagrad")
CASES = {
    "training.py": [
        *(f"mlp_{name}_{kind}" for name in _OPTIMIZERS for kind in ("ref", "resource")),
        *(f"embedding_{name}" for name in (*_OPTIMIZERS, *_OTHER_OPTIMIZERS)),
        *(
            "linear_model_of_seed_003 softmax_model_of_seed_002 convolutional_network "
            "recurrent_network"
        ).split(),
    ],
    "control_flow.py": (
        "cond_of_v1 cond_of_v2 cond_over_tasks_of_v1 cond_over_tasks_of_v2 "
        "cond_that_assigns_of_v1 cond_on_a_resource_of_v1 cond_on_a_resource_of_v2 "
        "nested_cond_of_v1 nested_cond_of_v2 while_loop_of_v1 "
        "while_loop_of_v2 while_over_tasks_of_v1 while_over_tasks_of_v2 "
        "while_that_assigns_of_v1 nested_while_of_v1 nested_while_of_v2 map_and_scan_of_v1 "
        "map_and_scan_of_v2 tensor_array_of_v1 tensor_array_of_v2 functions_of_v2 "
        "functions_that_read_and_write_variables autograph_function old_functions "
        "dead_values_do_not_leave_a_branch"
    ).split(),
    "datasets.py": (
        "a_shuffled_pipeline records_parsed_in_batches words_of_various_lengths "
        "two_pipelines_through_one_feedable_iterator variables_in_a_map_function"
    ).split(),
    "split_loops.py": (
        "writes_ref writes_resource gradient_ref gradient_resource nested_ref nested_resource "
        "in_a_branch_ref in_a_branch_resource queues_of_two_tasks an_error_in_an_iteration"
    ).split(),
    "sessions.py": (
        "partial_run make_callable callables_from_options uninitialized_variables "
        "errors_carry_class_and_operation devices_that_are_not_there strings_and_all_types "
        "queues input_pipeline_with_queue_runners deadlines_and_cancelling save_and_restore "
        "supervised_training synchronous_replicas containers_and_reset "
        "several_clients_share_variables isolated_sessions_do_not_share lists_devices "
        "traces_a_step_of_several_tasks graphs_that_grow big_graph "
        "tensor_handles_and_feeds_of_any_tensor sparse_tensors_and_structures "
        "random_numbers_of_a_seed_repeat soft_placement"
    ).split(),
}


@pytest.fixture(scope="module")
def outcomes(run_tensorflow: Callable[..., Any], cluster: Any) -> Callable[[str], Any]:
    """What a program reported; it runs once."""
    known: dict[str, Any] = {}

    def outcome(script: str) -> Any:
        if script not in known:
            known[script] = run_tensorflow(script, json.dumps(cluster.addresses))
        return known[script]

    return outcome


def _agree(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_agree, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_agree(one[k], other[k]) for k in one)
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-4, abs_tol=1e-5)
    return bool(one == other)


@pytest.mark.parametrize(
    ("script", "case"), [(script, case) for script, cases in CASES.items() for case in cases]
)
def test_a_program_gets_what_tensorflow_gives_by_itself(
    script: str, case: str, outcomes: Callable[[str], Any], cluster: Any
) -> None:
    here, there = (outcomes(script)[case][site] for site in ("here", "there"))
    assert "value" in here, f"The case is wrong:\n{here['trace']}"
    assert "value" in there, f"{there['trace']}\n{cluster.logs()}"
    assert _agree(here["value"], there["value"]), (
        f"TensorFlow by itself: {here['value']}\non Millrace: {there['value']}"
    )


@pytest.mark.parametrize("script", CASES)
def test_every_case_of_a_program_is_listed(script: str, outcomes: Callable[[str], Any]) -> None:
    assert set(outcomes(script)) == set(CASES[script])
