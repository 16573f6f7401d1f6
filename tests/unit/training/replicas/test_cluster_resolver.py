"""TF_CONFIG, as job launchers write it."""

import json

import pytest

import millrace as tf

Resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver


@pytest.fixture
def config(monkeypatch):
    def write(value):
        text = value if isinstance(value, str) else json.dumps(value)
        monkeypatch.setenv("TF_CONFIG", text)
        return Resolver()

    return write


def test_cluster_and_task_are_read(config):
    found = config(
        {
            "cluster": {"ps": ["c:3"], "worker": ["a:1", "b:2"]},
            "task": {"type": "worker", "index": 1},
        }
    )
    assert found.cluster_spec() == tf.train.ClusterSpec({"ps": ["c:3"], "worker": ["a:1", "b:2"]})
    assert (found.task_type, found.task_id) == ("worker", 1)
    assert found.master() == "b:2"
    assert found.master(rpc_layer="grpc") == "grpc://b:2"
    assert found.master("ps", 0) == "c:3"


def test_a_job_may_name_only_some_of_its_tasks(config):
    found = config(
        {
            "cluster": {"ps": ["c:3"], "worker": {"1": "b:2"}},
            "task": {"type": "worker", "index": "1"},
        }
    )
    assert found.cluster_spec().as_dict() == {"ps": ["c:3"], "worker": {1: "b:2"}}
    assert found.task_id == 1 and found.master() == "b:2"


def test_what_the_program_says_goes_before(config):
    config(
        {
            "cluster": {"worker": ["a:1", "b:2"]},
            "task": {"type": "worker", "index": 0},
            "rpc_layer": "grpc",
        }
    )
    assert Resolver().master() == "grpc://a:1"
    assert Resolver(task_id=1).master() == "grpc://b:2"


@pytest.mark.parametrize("value", ["", "{}", '{"cluster": {"worker": ["a:1"]}}'])
def test_one_task_or_none_is_this_process(config, value):
    assert config(value).master() == ""


def test_without_the_variable_there_is_no_cluster(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert Resolver().cluster_spec().as_dict() == {}
    assert Resolver().task_type is None and Resolver().task_id is None


def test_a_cluster_without_this_tasks_place_is_refused(config):
    with pytest.raises(ValueError, match="No such job in cluster: None"):
        config({"cluster": {"worker": ["a:1", "b:2"]}}).master()


@pytest.mark.parametrize("value", ["{", "[1]", "worker"])
def test_what_is_no_json_object_is_refused_with_the_text(config, value):
    with pytest.raises(ValueError, match="TF_CONFIG"):
        config(value).cluster_spec()


def test_a_server_can_be_made_of_it(config):
    found = config({"cluster": {"worker": ["localhost:0"]}, "task": {"type": "worker", "index": 0}})
    server = tf.train.Server(found.cluster_spec(), found.task_type, found.task_id, start=False)
    assert server.server_def.job_name == "worker"
    server.stop()


def test_a_simple_resolver_tells_what_it_was_told():
    spec = tf.train.ClusterSpec({"worker": ["a:1", "b:2"]})
    made = tf.distribute.cluster_resolver.SimpleClusterResolver(
        spec, "x:9", task_type="worker", task_id=1, rpc_layer="grpc", num_accelerators={"GPU": 2}
    )
    assert made.cluster_spec() is spec and made.master() == "grpc://x:9"
    assert made.master("worker", 0) == "grpc://a:1"
    assert (made.task_type, made.task_id, made.num_accelerators()) == ("worker", 1, {"GPU": 2})
    with pytest.raises(TypeError):
        tf.distribute.cluster_resolver.SimpleClusterResolver({"worker": []})
