"""ClusterSpec: as TensorFlow's, which printed the expectations."""

import pickle

import pytest

from millrace.core.cluster_spec import ClusterSpec
from millrace.core.config import ClusterDef


@pytest.mark.parametrize(
    ("cluster", "plain"),
    [
        ({"ps": ["a:1", "b:2"], "worker": ["c:3"]}, {"ps": ["a:1", "b:2"], "worker": ["c:3"]}),
        ({"ps": ("a:1", "b:2")}, {"ps": ["a:1", "b:2"]}),
        ({"ps": {1: "a:1", 0: "b:2"}}, {"ps": ["b:2", "a:1"]}),
        ({"ps": {0: "a:1", 2: "b:2"}}, {"ps": {0: "a:1", 2: "b:2"}}),
        ({"ps": {"0": "a:1"}}, {"ps": ["a:1"]}),
        ({b"ps": [b"a:1"]}, {"ps": ["a:1"]}),
        ({"ps": []}, {"ps": {}}),
        ({}, {}),
    ],
)
def test_a_cluster_comes_back_from_every_form(cluster, plain):
    spec = ClusterSpec(cluster)
    assert spec.as_dict() == plain
    assert ClusterSpec(spec).as_dict() == plain
    assert ClusterSpec(spec.as_cluster_def()).as_dict() == plain
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert repr(spec) == f"ClusterSpec({plain!r})"
    assert bool(spec) is bool(plain)


def test_the_cluster_def_has_jobs_in_order_of_name():
    spec = ClusterSpec({"worker": {3: "w3", 1: "w1"}, "ps": ["p0"]})
    assert spec.jobs == ["worker", "ps"]
    expected = ClusterDef()
    expected.job.add(name="ps").tasks[0] = "p0"
    worker = expected.job.add(name="worker")
    worker.tasks[1] = "w1"
    worker.tasks[3] = "w3"
    assert spec.as_cluster_def() == expected


def test_changing_what_was_handed_out_changes_nothing():
    spec = ClusterSpec({"ps": ["a"], "w": {1: "b"}})
    spec.as_cluster_def().job[0].tasks[0] = "changed"
    spec.as_dict()["w"][1] = "changed"
    spec.jobs.clear()
    assert spec.as_dict() == {"ps": ["a"], "w": {1: "b"}}


def test_tasks_are_found_by_job_and_index():
    spec = ClusterSpec({"w": {3: "a", 1: "b"}, "empty": []})
    assert spec.num_tasks("w") == 2
    assert spec.task_indices("w") == [1, 3]
    assert spec.task_address("w", 1) == "b"
    assert spec.job_tasks("w") == [None, "b", None, "a"]
    assert (spec.num_tasks("empty"), spec.job_tasks("empty")) == (0, [])
    with pytest.raises(ValueError, match=r"No task with index 0 in job 'w', which has \[1, 3\]"):
        spec.task_address("w", 0)


@pytest.mark.parametrize("method", ["num_tasks", "task_indices", "job_tasks"])
def test_a_job_that_does_not_exist_is_a_value_error(method):
    with pytest.raises(ValueError, match="No such job in cluster: 'x'"):
        getattr(ClusterSpec({"w": ["a"]}), method)("x")
    with pytest.raises(ValueError, match="No such job in cluster: 'x'"):
        ClusterSpec({"w": ["a"]}).task_address("x", 0)


def test_equality_is_by_tasks():
    assert ClusterSpec({"ps": ["a"]}) == ClusterSpec({"ps": {0: "a"}})
    assert ClusterSpec({"ps": ["a"]}) == {"ps": {0: "a"}}
    assert ClusterSpec({"ps": ["a"]}) != ClusterSpec({"ps": ["b"]})
    assert ClusterSpec({"ps": ["a"]}) != 3
    with pytest.raises(TypeError, match="unhashable"):
        hash(ClusterSpec({}))


@pytest.mark.parametrize(
    ("cluster", "error", "message"),
    [
        (3, TypeError, "`cluster` must be a dictionary"),
        ("a", TypeError, "`cluster` must be a dictionary"),
        (["a"], TypeError, "`cluster` must be a dictionary"),
        (None, TypeError, "`cluster` must be a dictionary"),
        ({"w": "a:1"}, TypeError, "The tasks for job 'w' must be a list or a dictionary"),
        ({"w": 3}, TypeError, "The tasks for job 'w' must be a list or a dictionary"),
        ({1: ["a"]}, TypeError, "Job name 1 must be bytes or unicode"),
        ({"w": [1]}, TypeError, "Task address 1 must be bytes or unicode"),
        ({"w": ["a", None]}, TypeError, "Task address None must be bytes or unicode"),
        ({"w": {"x": "a"}}, ValueError, "invalid literal for int"),
        ({"w": {-1: "a"}}, ValueError, "must not be negative"),
    ],
)
def test_what_is_no_cluster_is_refused(cluster, error, message):
    with pytest.raises(error, match=message):
        ClusterSpec(cluster)
