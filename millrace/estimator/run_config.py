"""`tf.estimator.RunConfig`: how an Estimator runs, and where in a cluster this process is."""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import millrace as tf
from millrace.core.config import RewriterConfig
from millrace.estimator import cluster_place
from millrace.estimator.cluster_place import TaskType
from millrace.platform.function_arguments import fn_args
from millrace.training.replicas.device_setter import STANDARD_PS_OPS

#: For the two periods of checkpoints, whose defaults depend on each other.
_USE_DEFAULT: Any = object()

#: The arguments of RunConfig, which are what `replace` may change.
_REPLACEABLE = [
    "model_dir",
    "tf_random_seed",
    "save_summary_steps",
    "save_checkpoints_steps",
    "save_checkpoints_secs",
    "session_config",
    "keep_checkpoint_max",
    "keep_checkpoint_every_n_hours",
    "log_step_count_steps",
    "train_distribute",
    "device_fn",
    "protocol",
    "eval_distribute",
    "experimental_distribute",
    "experimental_max_worker_delay_secs",
    "session_creation_timeout_secs",
    "checkpoint_save_graph_def",
]

_BOTH_PERIODS = "`save_checkpoints_steps` and `save_checkpoints_secs` cannot be both set."

#: What a setting must be, and the sentence for one that is not.
_CHECKS: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("model_dir", bool, "model_dir should be non-empty"),
    ("save_summary_steps", lambda n: n >= 0, "save_summary_steps should be >= 0"),
    ("save_checkpoints_steps", lambda n: n >= 0, "save_checkpoints_steps should be >= 0"),
    ("save_checkpoints_secs", lambda n: n >= 0, "save_checkpoints_secs should be >= 0"),
    (
        "session_config",
        lambda config: isinstance(config, tf.ConfigProto),
        "session_config must be instance of ConfigProto",
    ),
    ("keep_checkpoint_max", lambda n: n >= 0, "keep_checkpoint_max should be >= 0"),
    (
        "keep_checkpoint_every_n_hours",
        lambda n: n > 0,
        "keep_checkpoint_every_n_hours should be > 0",
    ),
    ("log_step_count_steps", lambda n: n > 0, "log_step_count_steps should be > 0"),
    ("tf_random_seed", lambda n: isinstance(n, int), "tf_random_seed must be integer."),
    (
        "experimental_max_worker_delay_secs",
        lambda n: isinstance(n, int),
        "experimental_max_worker_delay_secs must be an integer if set.",
    ),
    (
        "session_creation_timeout_secs",
        lambda n: n > 0,
        "session_creation_timeout_secs should be > 0",
    ),
    (
        "device_fn",
        lambda function: callable(function) and set(fn_args(function)) == {"op"},
        'device_fn must be callable with exactly one argument "op".',
    ),
    (
        "protocol",
        lambda name: name in ("grpc", "grpc+fast", "grpc+verbs"),
        "protocol should be grpc or grpc+verbs",
    ),
)


def get_default_session_config() -> Any:
    """The ConfigProto of an Estimator whose RunConfig has none."""
    return tf.ConfigProto(allow_soft_placement=True, graph_options=_graph_options())


def _graph_options() -> Any:
    once = RewriterConfig(meta_optimizer_iterations=RewriterConfig.ONE)
    return tf.GraphOptions(rewrite_options=once)


def path_to_str(path: Any) -> Any:
    """A path as text, whatever it was given as; None stays None."""
    return os.fsdecode(path) if hasattr(path, "__fspath__") else path


class RunConfig:
    """The settings of an Estimator; its place in a cluster comes from TF_CONFIG.

    TF_CONFIG is a JSON object: ``{"cluster": {"chief": […], "worker": […], "ps": […]}, "task":
    {"type": "worker", "index": 0}}``. An evaluator is no part of the cluster, its task type is
    "evaluator". Instead of "chief" there may be a "master", which evaluates as well.
    """

    def __init__(
        self,
        model_dir: Any = None,
        tf_random_seed: int | None = None,
        save_summary_steps: int | None = 100,
        save_checkpoints_steps: int | None = _USE_DEFAULT,
        save_checkpoints_secs: float | None = _USE_DEFAULT,
        session_config: Any = None,
        keep_checkpoint_max: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000,
        log_step_count_steps: int | None = 100,
        train_distribute: Any = None,
        device_fn: Callable[[Any], str] | None = None,
        protocol: str | None = None,
        eval_distribute: Any = None,
        experimental_distribute: Any = None,
        experimental_max_worker_delay_secs: int | None = None,
        session_creation_timeout_secs: float = 7200,
        checkpoint_save_graph_def: bool = True,
    ) -> None:
        """Makes a configuration.

        Args:
          model_dir: Where checkpoints and summaries go; a temporary folder when None.
          tf_random_seed: The seed of every graph that is built.
          save_summary_steps: Steps between summaries; 0 or None for none.
          save_checkpoints_steps: Steps between checkpoints; not with `save_checkpoints_secs`.
          save_checkpoints_secs: Seconds between checkpoints; 600 if neither is given; no
            checkpoints if both are None.
          session_config: A ConfigProto. On a cluster the default one has device filters: a worker
            talks with the ps only.
          keep_checkpoint_max: How many checkpoints are kept; None or 0 for all.
          keep_checkpoint_every_n_hours: One per this many hours is kept for ever.
          log_step_count_steps: Steps between reports of loss and speed; None for none.
          train_distribute: A strategy of `tf.distribute` for training.
          device_fn: Gives an op its device; `tf.train.replica_device_setter` when None.
          protocol: Of the server: "grpc", or None for the fastest.
          eval_distribute: A strategy for evaluation.
          experimental_distribute: Both strategies in one object.
          experimental_max_worker_delay_secs: The longest delay before a worker starts; 60 if None.
          session_creation_timeout_secs: How long a worker waits for the chief.
          checkpoint_save_graph_def: Whether checkpoints come with the graph.

        Raises:
          ValueError: A setting is none that it may be, or TF_CONFIG is inconsistent.
        """
        if save_checkpoints_steps is _USE_DEFAULT:
            no_period = save_checkpoints_secs is _USE_DEFAULT
            save_checkpoints_secs = 600 if no_period else save_checkpoints_secs
            save_checkpoints_steps = None
        elif save_checkpoints_secs is _USE_DEFAULT:
            save_checkpoints_secs = None
        elif save_checkpoints_steps is not None and save_checkpoints_secs is not None:
            raise ValueError(_BOTH_PERIODS)
        tf_config = cluster_place.read_tf_config()
        if tf_config:
            tf.logging.info("TF_CONFIG environment variable: %s", tf_config)
        if experimental_distribute is not None:
            train_distribute = train_distribute or experimental_distribute.train_distribute
            eval_distribute = eval_distribute or experimental_distribute.eval_distribute
        RunConfig._replace(
            self,
            _REPLACEABLE,
            model_dir=_model_dir(tf_config, path_to_str(model_dir)),
            tf_random_seed=tf_random_seed,
            save_summary_steps=save_summary_steps,
            save_checkpoints_steps=save_checkpoints_steps,
            save_checkpoints_secs=save_checkpoints_secs,
            session_config=session_config,
            keep_checkpoint_max=keep_checkpoint_max,
            keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours,
            log_step_count_steps=log_step_count_steps,
            train_distribute=train_distribute,
            device_fn=device_fn,
            protocol=protocol,
            eval_distribute=eval_distribute,
            experimental_distribute=experimental_distribute,
            experimental_max_worker_delay_secs=experimental_max_worker_delay_secs,
            session_creation_timeout_secs=session_creation_timeout_secs,
            checkpoint_save_graph_def=checkpoint_save_graph_def,
        )
        self._init_distributed_setting_from_environment_var(tf_config)
        if not self._session_config and self._cluster_spec:
            self._session_config = self._get_default_session_config_distributed()

    # TensorFlow's name: subclasses override or call it.
    def _init_distributed_setting_from_environment_var(self, tf_config: Mapping[str, Any]) -> None:
        place = cluster_place.place_in(tf_config)
        self._service = place.service
        self._cluster_spec = place.cluster_spec
        self._task_type = place.task_type
        self._task_id = place.task_id
        self._global_id_in_cluster = place.global_id_in_cluster
        self._master = place.master
        self._evaluation_master = place.evaluation_master
        self._num_ps_replicas = place.num_ps_replicas
        self._num_worker_replicas = place.num_worker_replicas
        self._is_chief = place.is_chief

    def _get_default_session_config_distributed(self) -> Any:
        """A ConfigProto whose device filters let a task wait for no other worker."""
        filters = {
            TaskType.MASTER: ["/job:ps", "/job:master"],
            TaskType.CHIEF: ["/job:ps", "/job:chief"],
            TaskType.WORKER: ["/job:ps", f"/job:worker/task:{self._task_id}"],
            TaskType.PS: ["/job:ps", "/job:worker", "/job:chief", "/job:master"],
        }.get(self._task_type)
        if filters is None:
            return None
        return tf.ConfigProto(
            allow_soft_placement=True, graph_options=_graph_options(), device_filters=filters
        )

    @property
    def cluster_spec(self) -> Any:
        """The cluster; empty in one process and for an evaluator."""
        return self._cluster_spec

    @property
    def device_fn(self) -> Any:
        """Gives an op its device, or None."""
        return self._device_fn

    @property
    def evaluation_master(self) -> str:
        """The target of evaluation's sessions."""
        return self._evaluation_master

    @property
    def is_chief(self) -> bool:
        """Whether this task initialises the model and writes checkpoints."""
        return self._is_chief

    @property
    def master(self) -> str:
        """The target of training's sessions."""
        return self._master

    @property
    def num_ps_replicas(self) -> int:
        """How many ps there are."""
        return self._num_ps_replicas

    @property
    def num_worker_replicas(self) -> int:
        """How many workers there are, the chief among them."""
        return self._num_worker_replicas

    @property
    def task_id(self) -> int:
        """The task's index in its job."""
        return self._task_id

    @property
    def global_id_in_cluster(self) -> int | None:
        """The task's number in the whole cluster; None for an evaluator."""
        return self._global_id_in_cluster

    @property
    def experimental_max_worker_delay_secs(self) -> int | None:
        """The longest delay before a worker starts."""
        return self._experimental_max_worker_delay_secs

    @property
    def task_type(self) -> str:
        """The task's job."""
        return self._task_type

    @property
    def tf_random_seed(self) -> int | None:
        """The seed of every graph."""
        return self._tf_random_seed

    @property
    def save_summary_steps(self) -> int | None:
        """Steps between summaries."""
        return self._save_summary_steps

    @property
    def save_checkpoints_secs(self) -> float | None:
        """Seconds between checkpoints."""
        return self._save_checkpoints_secs

    @property
    def session_config(self) -> Any:
        """The ConfigProto of sessions."""
        return self._session_config

    @property
    def save_checkpoints_steps(self) -> int | None:
        """Steps between checkpoints."""
        return self._save_checkpoints_steps

    @property
    def checkpoint_save_graph_def(self) -> bool:
        """Whether checkpoints come with the graph."""
        return self._checkpoint_save_graph_def

    @property
    def keep_checkpoint_max(self) -> int | None:
        """How many checkpoints are kept."""
        return self._keep_checkpoint_max

    @property
    def session_creation_timeout_secs(self) -> float:
        """How long a worker waits for the chief."""
        return self._session_creation_timeout_secs

    @property
    def keep_checkpoint_every_n_hours(self) -> float:
        """One checkpoint per this many hours is kept for ever."""
        return self._keep_checkpoint_every_n_hours

    @property
    def log_step_count_steps(self) -> int | None:
        """Steps between reports of loss and speed."""
        return self._log_step_count_steps

    @property
    def model_dir(self) -> Any:
        """The folder of checkpoints and summaries."""
        return self._model_dir

    @property
    def service(self) -> Any:
        """What TF_CONFIG says under "service"."""
        return self._service

    @property
    def train_distribute(self) -> Any:
        """The strategy of training, or None."""
        return self._train_distribute

    @property
    def eval_distribute(self) -> Any:
        """The strategy of evaluation, or None."""
        return self._eval_distribute

    @property
    def protocol(self) -> str | None:
        """The protocol of the server."""
        return self._protocol

    def replace(self, **kwargs: Any) -> RunConfig:
        """A copy with some settings changed; any argument of RunConfig may be given.

        Raises:
          ValueError: It is none of them, or may not be that.
        """
        return RunConfig._replace(copy.deepcopy(self), _REPLACEABLE, **kwargs)

    @staticmethod
    def _replace(
        config: RunConfig, allowed_properties_list: Sequence[str] | None = None, **kwargs: Any
    ) -> RunConfig:
        allowed = list(allowed_properties_list or ())
        for key, value in kwargs.items():
            if key not in allowed:
                raise ValueError(
                    f"Replacing {key} is not supported. Allowed properties are {allowed}."
                )
            setattr(config, f"_{key}", value)
        _settle_periods(config, kwargs)
        for key, is_good, sentence in _CHECKS:
            value = getattr(config, f"_{key}", None)
            if value is not None and not is_good(value):
                raise ValueError(sentence)
        return config

    # Set by `_replace`, one for each argument.
    _model_dir: Any
    _tf_random_seed: int | None
    _save_summary_steps: int | None
    _save_checkpoints_steps: int | None
    _save_checkpoints_secs: float | None
    _session_config: Any
    _keep_checkpoint_max: int | None
    _keep_checkpoint_every_n_hours: float
    _log_step_count_steps: int | None
    _train_distribute: Any
    _device_fn: Any
    _protocol: str | None
    _eval_distribute: Any
    _experimental_distribute: Any
    _experimental_max_worker_delay_secs: int | None
    _session_creation_timeout_secs: float
    _checkpoint_save_graph_def: bool


def _settle_periods(config: RunConfig, replaced: Mapping[str, Any]) -> None:
    """Lets the period that was given last rule out the other one."""
    steps, secs = config._save_checkpoints_steps, config._save_checkpoints_secs
    gave_steps, gave_secs = (f"save_checkpoints_{each}" in replaced for each in ("steps", "secs"))
    if gave_steps and gave_secs:
        if steps is not None and secs is not None:
            raise ValueError(_BOTH_PERIODS)
    elif gave_steps and steps is not None:
        config._save_checkpoints_secs = None
    elif gave_secs and secs is not None:
        config._save_checkpoints_steps = None


def _model_dir(tf_config: Mapping[str, Any], model_dir: Any) -> Any:
    if model_dir == "":
        raise ValueError("model_dir should be non-empty.")
    in_tf_config = tf_config.get("model_dir")
    if in_tf_config == "":
        raise ValueError("model_dir in TF_CONFIG should be non-empty.")
    if in_tf_config:
        if model_dir and in_tf_config != model_dir:
            raise ValueError(
                "`model_dir` provided in RunConfig construct, if set, must have the same value as "
                f"the model_dir in TF_CONFIG. model_dir: {model_dir}\n"
                f'TF_CONFIG["model_dir"]: {in_tf_config}.\n'
            )
        tf.logging.info("Using model_dir in TF_CONFIG: %s", in_tf_config)
    return model_dir or in_tf_config


def maybe_overwrite_model_dir_and_session_config(
    config: RunConfig | None, model_dir: Any
) -> RunConfig:
    """A RunConfig with a folder and a session's configuration, whatever was given.

    Raises:
      ValueError: It is none, or has another folder.
    """
    if config is None:
        config = RunConfig()
        tf.logging.info("Using default config.")
    if not isinstance(config, RunConfig):
        raise ValueError(f"config must be an instance of `RunConfig`, but provided {config}.")
    if config.session_config is None:
        config = RunConfig.replace(config, session_config=get_default_session_config())
    model_dir = path_to_str(model_dir)
    if model_dir is not None and config.model_dir not in (None, model_dir):
        raise ValueError(
            "`model_dir` are set both in constructor and `RunConfig`, but with different values. "
            f"In constructor: '{model_dir}', in `RunConfig`: '{config.model_dir}' "
        )
    if not model_dir and config.model_dir is None:
        model_dir = tempfile.mkdtemp()
        tf.logging.warning("Using temporary folder as model directory: %s", model_dir)
    return RunConfig.replace(config, model_dir=model_dir) if model_dir else config


def device_function_of(config: RunConfig) -> Any:
    """Puts variables on the ps and the rest on this task; None without ps."""
    if config.num_ps_replicas == 0:
        return None
    return tf.train.replica_device_setter(
        ps_tasks=config.num_ps_replicas,
        worker_device=f"/job:{config.task_type}/task:{config.task_id}",
        merge_devices=True,
        ps_ops=list(STANDARD_PS_OPS),
        cluster=config.cluster_spec,
    )
