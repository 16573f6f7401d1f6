"""RunConfig: settings, and a task's place in a cluster."""

from __future__ import annotations

import json
from typing import Any

import pytest

import millrace as tf

CLUSTER = {"chief": ["h:1"], "worker": ["h:2", "h:3"], "ps": ["h:4", "h:5"]}


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(tf_config: Any, **settings: Any) -> Any:
        monkeypatch.setenv("TF_CONFIG", json.dumps(tf_config))
        return tf.estimator.RunConfig(**settings)

    return make


def task(kind: str, index: int, cluster: Any = CLUSTER) -> dict[str, Any]:
    return {"cluster": cluster, "task": {"type": kind, "index": index}}


@pytest.mark.parametrize(
    ("kind", "index", "number", "filters"),
    [
        ("chief", 0, 0, ["/job:ps", "/job:chief"]),
        ("worker", 1, 2, ["/job:ps", "/job:worker/task:1"]),
        ("ps", 1, 4, ["/job:ps", "/job:worker", "/job:chief", "/job:master"]),
    ],
)
def test_a_task_finds_its_place_in_the_cluster(
    configure: Any, kind: str, index: int, number: int, filters: list[str]
) -> None:
    config = configure(task(kind, index))
    assert (config.task_type, config.task_id) == (kind, index)
    assert config.master == f"grpc://{CLUSTER[kind][index]}"
    assert config.is_chief == (kind == "chief")
    assert (config.num_ps_replicas, config.num_worker_replicas) == (2, 3)
    assert config.global_id_in_cluster == number
    assert list(config.session_config.device_filters) == filters
    assert config.session_config.allow_soft_placement


def test_an_evaluator_is_no_part_of_the_cluster(configure: Any) -> None:
    config = configure(task("evaluator", 0))
    assert not config.cluster_spec and not config.is_chief
    assert (config.num_ps_replicas, config.num_worker_replicas) == (0, 0)
    assert (config.master, config.evaluation_master) == ("", "")
    assert config.global_id_in_cluster is None and config.session_config is None


def test_a_master_is_the_chief(configure: Any) -> None:
    config = configure(task("master", 0, {"master": ["h:1"], "worker": ["h:2"], "ps": ["h:3"]}))
    assert config.is_chief and config.num_worker_replicas == 2
    assert list(config.session_config.device_filters) == ["/job:ps", "/job:master"]


def test_a_cluster_of_one_task_needs_no_server(configure: Any) -> None:
    assert configure(task("chief", 0, {"chief": ["h:1"]})).master == ""


@pytest.mark.parametrize(
    ("tf_config", "sentence"),
    [
        (
            task("worker", 0, {"worker": ["h:1"], "ps": ["h:2"]}),
            'it must have one "chief" node. Found jobs',
        ),
        (task("chief", 0, {"chief": ["h:1", "h:2"]}), 'must have only one "chief" node'),
        ({"cluster": CLUSTER}, "task type must be set"),
        ({"cluster": CLUSTER, "task": {"type": "ps"}}, "task index must be set"),
        (task("worker", -1), "must be non-negative"),
        (task("worker", 2), "2 is not a valid task_id for task_type worker in the cluster_spec"),
        (task("trainer", 0), "trainer is not a valid task_type in the cluster_spec"),
        (task("evaluator", 0, {"master": ["h:1"]}), "task_type `evaluator` is not supported"),
        (task("chief", 0, {"master": ["h:1"], "chief": ["h:2"]}), "job `chief` is not supported"),
        ({"task": {"type": "ps", "index": 0}}, "task type must be WORKER"),
        ({"task": {"type": "worker", "index": 1}}, "task index must be 0"),
        ({"model_dir": ""}, "model_dir in TF_CONFIG should be non-empty"),
        ([1], "must be a JSON object"),
    ],
)
def test_an_inconsistent_tf_config_is_refused_with_tensorflows_words(
    configure: Any, tf_config: Any, sentence: str
) -> None:
    with pytest.raises(ValueError) as raised:
        configure(tf_config)
    assert sentence in str(raised.value)


def test_a_service_that_is_no_dict_is_refused(configure: Any) -> None:
    with pytest.raises(TypeError, match='If "service" is set'):
        configure({"service": "x"})


def test_tf_config_that_is_no_json_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", "{chief}")
    with pytest.raises(ValueError) as raised:
        tf.estimator.RunConfig()
    assert "{chief}" in raised.value.__notes__[0]


def test_the_model_dir_may_come_from_tf_config(configure: Any) -> None:
    assert configure({"model_dir": "/a"}).model_dir == "/a"
    assert configure({"model_dir": "/a"}, model_dir="/a").model_dir == "/a"
    with pytest.raises(ValueError, match="must have the same value"):
        configure({"model_dir": "/a"}, model_dir="/b")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"save_checkpoints_steps": 1, "save_checkpoints_secs": 1}, "cannot be both set"),
        ({"model_dir": ""}, "model_dir should be non-empty"),
        ({"save_summary_steps": -1}, "save_summary_steps should be >= 0"),
        ({"session_config": 1}, "must be instance of ConfigProto"),
        ({"keep_checkpoint_max": -1}, "keep_checkpoint_max should be >= 0"),
        ({"keep_checkpoint_every_n_hours": 0}, "should be > 0"),
        ({"log_step_count_steps": 0}, "log_step_count_steps should be > 0"),
        ({"tf_random_seed": 1.0}, "must be integer"),
        ({"device_fn": lambda node: "/cpu:0"}, 'exactly one argument "op"'),
        ({"protocol": "http"}, "protocol should be grpc"),
        ({"experimental_max_worker_delay_secs": 0.5}, "must be an integer"),
        ({"session_creation_timeout_secs": 0}, "should be > 0"),
    ],
)
def test_a_setting_that_may_not_be_is_refused(settings: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        tf.estimator.RunConfig(**settings)


def test_the_period_that_is_given_last_rules_out_the_other() -> None:
    config = tf.estimator.RunConfig(save_checkpoints_secs=5)
    assert (config.save_checkpoints_steps, config.save_checkpoints_secs) == (None, 5)
    config = config.replace(save_checkpoints_steps=7)
    assert (config.save_checkpoints_steps, config.save_checkpoints_secs) == (7, None)
    config = config.replace(save_checkpoints_secs=3)
    assert (config.save_checkpoints_steps, config.save_checkpoints_secs) == (None, 3)
    never = tf.estimator.RunConfig(save_checkpoints_steps=None, save_checkpoints_secs=None)
    assert (never.save_checkpoints_steps, never.save_checkpoints_secs) == (None, None)
    with pytest.raises(ValueError, match="cannot be both set"):
        config.replace(save_checkpoints_steps=1, save_checkpoints_secs=1)


def test_only_settings_can_be_replaced() -> None:
    with pytest.raises(ValueError, match="Replacing task_id is not supported"):
        tf.estimator.RunConfig().replace(task_id=1)


def test_strategies_have_one_replica_in_a_process() -> None:
    strategies = (
        tf.distribute.MirroredStrategy(),
        tf.distribute.OneDeviceStrategy("/cpu:0"),
        tf.distribute.experimental.ParameterServerStrategy(),
        tf.contrib.distribute.MirroredStrategy(num_gpus=4),
    )
    for strategy in strategies:
        assert tf.estimator.RunConfig(train_distribute=strategy).train_distribute is strategy
        with strategy.scope():
            assert tf.distribute.get_strategy() is strategy
        assert not tf.distribute.has_strategy()
    with pytest.raises(tf.errors.UnimplementedError, match="a process trains one replica"):
        tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    both = tf.contrib.distribute.DistributeConfig(strategies[0], strategies[1])
    config = tf.estimator.RunConfig(experimental_distribute=both)
    assert (config.train_distribute, config.eval_distribute) == strategies[:2]
    context = tf.distribute.InputContext(num_replicas_in_sync=2)
    assert context.get_per_replica_batch_size(6) == 3
    with pytest.raises(ValueError, match="not divisible"):
        context.get_per_replica_batch_size(7)
