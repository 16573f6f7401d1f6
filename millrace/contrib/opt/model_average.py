"""Workers train copies of their own, and average them on the parameter servers now and then."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.ops.state.variable_changes import assign, assign_add

GLOBAL_VARIABLE_NAME = "global_center_variable"


class ModelAverageCustomGetter:
    """Makes each trainable variable twice: a copy on the worker, the mean on the ps.

    Use it as the `custom_getter` of the variable scope that the model is in.
    """

    def __init__(self, worker_device: str) -> None:
        self._worker_device = worker_device
        self._local_2_global: dict[Any, Any] = {}

    def __call__(
        self, getter: Any, name: str, trainable: Any, collections: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """The worker's copy."""
        if not trainable:
            kwargs["trainable"] = trainable
            kwargs["collections"] = collections
            return getter(name, *args, **kwargs)
        with tf.device(self._worker_device):
            local = getter(
                name, *args, trainable=True,
                collections=[tf.GraphKeys.LOCAL_VARIABLES], **kwargs,
            )  # fmt: skip
        if not any(local is v for v in tf.trainable_variables()):
            tf.add_to_collection(tf.GraphKeys.TRAINABLE_VARIABLES, local)
        mean = tf.Variable(
            local.initialized_value(), name=f"{GLOBAL_VARIABLE_NAME}/{name}", trainable=False,
            collections=[tf.GraphKeys.GLOBAL_VARIABLES],
        )  # fmt: skip
        self._local_2_global[local] = mean
        return local


class ModelAverageOptimizer(tf.train.Optimizer):
    """Another optimizer on the worker's copies; every `interval_steps` all copies are averaged."""

    def __init__(
        self, opt: Any, num_worker: int, is_chief: bool, ma_custom_getter: Any,
        interval_steps: int = 100, use_locking: bool = True, name: str = "ModelAverageOptimizer",
    ) -> None:  # fmt: skip
        super().__init__(use_locking, name)
        self._opt, self._num_worker, self._is_chief = opt, num_worker, is_chief
        self._map = ma_custom_getter._local_2_global
        self._interval_steps = interval_steps
        self._local_step = tf.get_variable(
            "local_step", initializer=0, trainable=False,
            collections=[tf.GraphKeys.LOCAL_VARIABLES],
        )  # fmt: skip

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """The other optimizer's."""
        return self._opt.compute_gradients(*args, **kwargs)

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: Any = None
    ) -> Any:
        """A local step; when it is time, the mean of all workers' copies replaces them."""
        pairs = [(g, v) for g, v in grads_and_vars if g is not None]
        applied = self._opt.apply_gradients(pairs)
        with tf.control_dependencies([applied]):
            count = assign_add(self._local_step, 1)
        variables = [v for _, v in pairs if v in self._map]

        def average() -> Any:
            taken = []
            for local in variables:
                mean = self._map[local]
                share = (tf.identity(local) - tf.identity(mean)) / self._num_worker
                moved = assign_add(mean, share)
                taken.append(assign(local, tf.identity(moved)).op)
            return tf.group(*taken)

        def and_true(operation: Any) -> Any:
            with tf.control_dependencies([operation]):
                return tf.constant(True)

        with tf.control_dependencies([count]):
            due = tf.equal(tf.mod(tf.identity(count), self._interval_steps), 0)
            averaged = tf.cond(due, lambda: and_true(average()), lambda: tf.constant(False))
        with tf.control_dependencies([averaged]):
            if global_step is None:
                return tf.no_op()
            return assign_add(global_step, 1, name=name).op

    def get_init_op(self) -> Any:
        """Copies the means to the worker's copies."""
        return tf.group(*[assign(local, mean).op for local, mean in self._map.items()])

    def make_session_run_hook(self) -> Any:
        """A hook that lets the worker begin with the means."""
        return _CopyMeans(self)


class _CopyMeans(tf.train.SessionRunHook):
    def __init__(self, optimizer: ModelAverageOptimizer) -> None:
        self._optimizer = optimizer

    def begin(self) -> None:
        """Adds the copying to the graph."""
        self._copy = self._optimizer.get_init_op()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Copies."""
        session.run(self._copy)
