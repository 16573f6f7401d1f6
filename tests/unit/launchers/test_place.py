"""A task's place, from every scheduler's variables."""

from __future__ import annotations

import json

import pytest

from millrace.launchers.place import Place, Wanted, expand_counts, expand_hosts, find

CLUSTER = {"ps": ["a:1"], "worker": ["b:1", "c:1"]}


def test_tf_config_is_taken_as_it_is() -> None:
    config = {"cluster": CLUSTER, "task": {"type": "worker", "index": 1}}
    assert find({"TF_CONFIG": json.dumps(config)}, Wanted()) == Place(
        CLUSTER, "worker", 1, "TF_CONFIG"
    )


def test_a_pod_of_an_indexed_job_has_its_number() -> None:
    variables = {
        "MILLRACE_CLUSTER": json.dumps(CLUSTER),
        "MILLRACE_JOB": "worker",
        "JOB_COMPLETION_INDEX": "1",
    }
    place = find(variables, Wanted())
    assert (place.job, place.index, place.cluster) == ("worker", 1, CLUSTER)
    assert json.loads(place.tf_config)["task"] == {"type": "worker", "index": 1}


def slurm(rank: int) -> dict[str, str]:
    return {
        "SLURM_JOB_ID": "7",
        "SLURM_PROCID": str(rank),
        "SLURM_JOB_NODELIST": "n[01-02],gpu",
        "SLURM_TASKS_PER_NODE": "2(x2),1",
    }


def test_slurms_ranks_become_ps_and_workers_with_ports_of_the_job() -> None:
    place = find(slurm(3), Wanted(ps=2))
    assert place.cluster == {
        "ps": ["n01:20700", "n01:20701"],
        "worker": ["n02:20700", "n02:20701", "gpu:20700"],
    }
    assert (place.job, place.index) == ("worker", 1)
    assert find(slurm(1), Wanted(ps=2)).job == "ps"
    assert find(slurm(0), Wanted(ps=0, port=5000)).cluster["worker"][0] == "n01:5000"


def test_ranks_of_torchrun_and_of_mpi() -> None:
    torch = {"RANK": "1", "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3", "MASTER_PORT": "29500"}
    assert find({**torch, "MASTER_ADDR": "m"}, Wanted()).cluster == {
        "ps": ["m:29501"],
        "worker": ["m:29502", "m:29503"],
    }
    mpi = {
        "OMPI_COMM_WORLD_RANK": "2",
        "OMPI_COMM_WORLD_SIZE": "4",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    }
    place = find(mpi, Wanted(hosts=("a", "b")))
    assert place.cluster == {"ps": ["a:2222"], "worker": ["a:2223", "b:2222", "b:2223"]}
    assert (place.job, place.index) == ("worker", 1)
    with pytest.raises(ValueError, match="name the machines in the order of their ranks"):
        find(mpi, Wanted())


@pytest.mark.parametrize(
    ("variables", "wanted", "sentence"),
    [
        ({}, Wanted(), "nothing here says which task this is"),
        ({"TF_CONFIG": "{"}, Wanted(), "TF_CONFIG is no JSON"),
        ({"TF_CONFIG": "[]"}, Wanted(), "TF_CONFIG is no JSON object"),
        (
            {"TF_CONFIG": json.dumps({"cluster": CLUSTER, "task": {"type": "ps", "index": 1}})},
            Wanted(),
            "ps has 1 tasks, and none 1",
        ),
        (
            {"TF_CONFIG": json.dumps({"cluster": CLUSTER, "task": {"type": "boss"}})},
            Wanted(),
            "the job 'boss' is none of ps, worker",
        ),
        (slurm(0), Wanted(ps=5), "--ps 5 of 5 tasks leaves no worker"),
        (slurm(9), Wanted(), "rank 9 is not one of the 5 tasks"),
        ({"RANK": "0", "WORLD_SIZE": "3"}, Wanted(hosts=("a", "b")), "cannot be shared evenly"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(variables, wanted, sentence) -> None:
    with pytest.raises(ValueError, match=sentence):
        find(variables, wanted)


def test_slurms_lists_are_read() -> None:
    assert expand_hosts("a") == ["a"]
    assert expand_hosts("a[1-3,7],b-[08-10]x") == [
        "a1",
        "a2",
        "a3",
        "a7",
        "b-08x",
        "b-09x",
        "b-10x",
    ]
    assert expand_hosts("r[1-2]n[1-2]") == ["r1n1", "r1n2", "r2n1", "r2n2"]
    assert expand_counts("2(x3),1") == [2, 2, 2, 1]


def test_tasks_of_two_components_on_one_node_have_ports_of_their_own() -> None:
    variables = {
        "SLURM_JOB_ID": "7",
        "SLURM_PROCID": "2",
        "SLURM_HET_SIZE": "2",
        "SLURM_JOB_NODELIST_HET_GROUP_0": "a",
        "SLURM_TASKS_PER_NODE_HET_GROUP_0": "1",
        "SLURM_JOB_NODELIST_HET_GROUP_1": "a,b",
        "SLURM_TASKS_PER_NODE_HET_GROUP_1": "1(x2)",
    }
    place = find(variables, Wanted(ps=1))
    assert place.cluster == {"ps": ["a:20700"], "worker": ["a:20701", "b:20700"]}
    assert (place.job, place.index) == ("worker", 1)
