"""What a launched job consists of."""

from __future__ import annotations

import json

import pytest

from millrace.cli import job
from millrace.cli.task import flags_of
from millrace.launchers import place as places

CLUSTER = {"ps": ["localhost:1"], "worker": ["localhost:2", "localhost:3"]}


@pytest.mark.parametrize(
    ("source", "way"),
    [
        ('flags.DEFINE_string("ps_hosts", "", "")', job.FLAGS),
        ('parser.add_argument("--ps_hosts")', job.FLAGS),
        ('json.loads(os.environ["TF_CONFIG"])', job.ENVIRONMENT),
        ("tf.distribute.cluster_resolver.TFConfigClusterResolver()", job.ENVIRONMENT),
        ('worker_hosts = ["10.0.0.1:2222"]', job.SERVERS),
        ('for f in ("ps_hosts", "worker_hosts"): flags.DEFINE_string(f, "", "")', job.FLAGS),
        ('for j in JOBS: tf.flags.DEFINE_string(j + "_hosts", "", "")', job.FLAGS),
        ('for j in JOBS: parser.add_argument("--%s_hosts" % j)', job.FLAGS),
        ('spec = {"ps": FLAGS.ps_hosts.split(",")}', job.FLAGS),
        ('env = "TF_CONFIG"; defaults = {"ps_hosts": None}', job.ENVIRONMENT),
        ("tf.estimator.train_and_evaluate(model, train, test)", job.ENVIRONMENT),
        ("learn_runner.run(experiment_fn, output_dir)", job.ENVIRONMENT),
        ("print(1)", None),
        ("# see ps_hosts in the manual", None),
    ],
)
def test_a_source_says_how_the_program_learns_its_cluster(source: str, way: str | None) -> None:
    assert job.way_of(source) == way


def test_each_task_is_run_as_on_any_scheduler() -> None:
    tasks = job.tasks_of("t.py", '"task_id"', ["--steps=5"], CLUSTER, job.FLAGS)
    assert [task.name for task in tasks] == ["ps-0", "worker-0", "worker-1"]
    assert [task.serves for task in tasks] == [True, False, False]
    own = ["millrace", "task", "--cluster-via", "flags", "t.py", "--", "--steps=5"]
    assert tasks[2].command[3:] == own
    place = places.find(tasks[2].environment, places.Wanted())
    assert flags_of(place, job.index_flag_of('"task_id"')) == [
        "--ps_hosts=localhost:1",
        "--worker_hosts=localhost:2,localhost:3",
        "--job_name=worker",
        "--task_id=1",
    ]


def test_tf_config_tells_each_task_its_place() -> None:
    tasks = job.tasks_of("t.py", "", [], CLUSTER, job.ENVIRONMENT)
    config = json.loads(tasks[1].environment["TF_CONFIG"])
    assert config == {"cluster": CLUSTER, "task": {"type": "worker", "index": 0}}


def test_an_evaluator_knows_the_cluster_but_is_not_in_it() -> None:
    cluster = {"ps": ["localhost:1"], "chief": ["localhost:2"], "worker": ["localhost:3"]}
    tasks = job.tasks_of("t.py", "", [], cluster, job.ENVIRONMENT, evaluator=True)
    assert [task.name for task in tasks] == ["ps-0", "chief-0", "worker-0", "evaluator-0"]
    assert [task.evaluates for task in tasks] == [False, False, False, True]
    config = json.loads(tasks[3].environment["TF_CONFIG"])
    assert config == {"cluster": cluster, "task": {"type": "evaluator", "index": 0}}
    assert tasks[3].address == "" and not tasks[3].serves


def test_a_client_of_running_servers_has_servers_started_for_it() -> None:
    tasks = job.tasks_of("t.py", "'task_index'", [], CLUSTER, job.SERVERS)
    assert [task.name for task in tasks] == ["ps-0", "worker-0", "worker-1", "client-0", "client-1"]
    assert all(task.serves for task in tasks[:3])
    assert "--hosts" in tasks[3].command
    assert tasks[4].command[-1] == "--task_index=1"


def test_the_last_step_is_known_when_an_argument_says_it() -> None:
    assert job.last_step_of(["--lr=0.1", "--train_steps=500"]) == 500
    assert job.last_step_of(["--lr=0.1"]) is None
