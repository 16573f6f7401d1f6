"""Optimizers whose workers train copies of their own and meet at a centre on the ps now and then.

A custom getter makes each trainable variable thrice: the worker's copy, the centre, and one more
on the worker, for which each algorithm has its own use.
"""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.ops.state.variable_changes import assign, assign_add, assign_sub

GLOBAL_VARIABLE_NAME = "global_center_variable"


class _WorkerCopies:
    """A custom getter: the worker's copy of each trainable variable, with two that go with it."""

    #: The prefix of the second variable on the worker.
    _SECOND: str

    def __init__(self, worker_device: str) -> None:
        self._worker_device = worker_device
        self._global_map: dict[Any, Any] = {}
        self._second: dict[Any, Any] = {}

    def __call__(
        self, getter: Any, name: str, trainable: Any, collections: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """The worker's copy."""
        local = [tf.GraphKeys.LOCAL_VARIABLES]
        if not trainable:
            on_worker = bool(collections) and tf.GraphKeys.LOCAL_VARIABLES in collections
            with tf.device(self._worker_device if on_worker else None):
                return getter(name, *args, trainable=trainable, collections=collections, **kwargs)
        with tf.device(self._worker_device):
            copy = getter(name, *args, trainable=True, collections=local, **kwargs)
        if kwargs.get("reuse") is True:
            return copy
        everywhere = [tf.GraphKeys.GLOBAL_VARIABLES]
        centre = getter(
            f"{GLOBAL_VARIABLE_NAME}/{name}", *args, trainable=False, collections=everywhere,
            **kwargs,
        )  # fmt: skip
        with tf.device(self._worker_device):
            second = getter(
                f"{self._SECOND}/{name}", *args, trainable=False, collections=local, **kwargs
            )
        if kwargs.get("partitioner") is None:
            self._global_map[copy], self._second[copy] = centre, second
        else:
            for part, its_centre, its_second in zip(copy, centre, second, strict=True):
                self._global_map[part], self._second[part] = its_centre, its_second
        return copy


class ElasticAverageCustomGetter(_WorkerCopies):
    """For `ElasticAverageOptimizer`: its third variable is the worker's view of the centre."""

    _SECOND = "local_center_variable"

    @property
    def _local_map(self) -> dict[Any, Any]:
        return self._second


class AGNCustomGetter(_WorkerCopies):
    """For `AGNOptimizer`: its third variable adds gradients up."""

    _SECOND = "grad_variable"

    @property
    def _grad_map(self) -> dict[Any, Any]:
        return self._second


class _PeriodicOptimizer(tf.train.Optimizer):
    """Another optimizer on the worker's copies, and a meeting every few steps."""

    def __init__(
        self, opt: Any, num_worker: int, getter: Any, period: int, use_locking: bool, name: str
    ) -> None:
        super().__init__(use_locking, name)
        self._opt, self._num_worker, self._period = opt, num_worker, period
        self._global_map = getter._global_map
        self._local_step = tf.get_variable(
            "local_step", initializer=0, trainable=False,
            collections=[tf.GraphKeys.LOCAL_VARIABLES],
        )  # fmt: skip
        self._opt._prepare()

    def _apply_on_worker(self, grads_and_vars: Any) -> Any:
        """The other optimizer's step; its slots are the worker's own."""
        before = set(tf.global_variables())
        applied = self._opt.apply_gradients(grads_and_vars)
        everywhere = tf.get_collection_ref(tf.GraphKeys.GLOBAL_VARIABLES)
        for made in [v for v in everywhere if v not in before]:
            everywhere.remove(made)
            tf.add_to_collection(tf.GraphKeys.LOCAL_VARIABLES, made)
        return applied

    def _meet_every_period(self, before: list[Any], meet: Any) -> Any:
        with tf.control_dependencies(before):
            counted = assign_add(self._local_step, 1, name="local_step_update").op
        with tf.control_dependencies([counted]):
            due = tf.equal(tf.mod(self._local_step, self._period), 0)
            return tf.cond(due, meet, tf.no_op)

    def _copies(self) -> list[Any]:
        copies = [v for v in tf.trainable_variables() if v in self._global_map]
        if not copies:
            raise ValueError(
                "The lists of local_variables, global_center_variables, "
                "local_center_variables should not be empty"
            )
        return copies

    def make_session_run_hook(self, is_chief: bool, task_index: int) -> Any:
        """A hook that lets the worker begin at the centre."""
        return _BeginAtCentre(self, task_index)


class _BeginAtCentre(tf.train.SessionRunHook):
    def __init__(self, optimizer: Any, task_index: int) -> None:
        self._optimizer, self._task_index = optimizer, task_index

    def begin(self) -> None:
        """Adds the copying to the graph."""
        self._copy = self._optimizer.get_init_op(self._task_index)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Copies."""
        session.run(self._copy)


class ElasticAverageOptimizer(_PeriodicOptimizer):
    """Elastic averaging SGD (Zhang, Choromanska and LeCun, 2015).

    Args:
      opt: What trains the worker's copies.
      num_worker: How many workers there are.
      ea_custom_getter: What the model's variables were made with.
      communication_period: Steps between meetings.
      moving_rate: How far copy and centre move towards each other; 0.9 / period / workers.
      rho: How much exploration costs; the moving rate over the learning rate.
      use_locking: Whether updates hold locks.
      synchronous: Whether all workers begin together.
      name: A prefix of ops.
    """

    BETA = 0.9

    def __init__(
        self, opt: Any, num_worker: int, ea_custom_getter: ElasticAverageCustomGetter,
        communication_period: int = 10, moving_rate: float | None = None, rho: float | None = None,
        use_locking: bool = True, synchronous: bool = False,
        name: str = "ElasticAverageOptimizer",
    ) -> None:  # fmt: skip
        super().__init__(opt, num_worker, ea_custom_getter, communication_period, use_locking, name)
        self._local_map = ea_custom_getter._local_map
        self._synchronous = synchronous
        if moving_rate is None:
            moving_rate = self.BETA / communication_period / num_worker
        self._moving_rate = moving_rate
        self._rho = moving_rate / opt._learning_rate if rho is None else rho

    def compute_gradients(
        self, loss: Any, var_list: Any = None, gate_gradients: Any = tf.train.Optimizer.GATE_OP,
        aggregation_method: Any = None, colocate_gradients_with_ops: bool = False,
        grad_loss: Any = None,
    ) -> Any:  # fmt: skip
        """Those of the loss and of the distance from the centre."""
        var_list = var_list or tf.trainable_variables()
        apart = [tf.subtract(v, self._local_map[v]) for v in var_list if v in self._local_map]
        total = loss + self._rho * tf.add_n([tf.nn.l2_loss(each) for each in apart])
        return self._opt.compute_gradients(
            total, var_list, gate_gradients, aggregation_method, colocate_gradients_with_ops,
            grad_loss,
        )  # fmt: skip

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: Any = None
    ) -> Any:
        """A step of the worker's copies, and a meeting when one is due."""
        pairs = list(grads_and_vars)
        applied = self._apply_on_worker(pairs)
        copies = [v for g, v in pairs if g is not None]

        def meet() -> Any:
            seen = [assign(self._local_map[v], self._global_map[v]) for v in copies]
            with tf.control_dependencies(seen):
                # A variable's own snapshot may be older than its last change.
                apart = [tf.subtract(v.read_value(), s) for v, s in zip(copies, seen, strict=True)]
                pulls = [tf.multiply(self._moving_rate, each) for each in apart]
                moves = [assign_sub(v, pull) for v, pull in zip(copies, pulls, strict=True)]
                for v, pull in zip(copies, pulls, strict=True):
                    moves.append(assign_add(self._global_map[v], pull))
                if global_step is not None:
                    with tf.colocate_with(global_step):
                        moves.append(assign_add(global_step, 1))
            return tf.group(*moves)

        return self._meet_every_period([applied], meet)

    def get_init_op(self, task_index: int) -> Any:
        """Copies the centre to the worker; waits for the other workers if synchronous."""
        moves = []
        for v in self._copies():
            moves += [
                assign(v, self._global_map[v]),
                assign(self._local_map[v], self._global_map[v]),
            ]
        begun = tf.group(*moves)
        if not self._synchronous:
            return begun
        queues = [
            tf.FIFOQueue(self._num_worker, [tf.bool], [[]], shared_name=name)
            for name in (f"variable_init_sync_queue{i}" for i in range(self._num_worker))
        ]
        with tf.control_dependencies([begun]):
            told = [q.enqueue(False) for i, q in enumerate(queues) if i != task_index]
        return tf.group(*told, queues[task_index].dequeue_many(len(queues) - 1))

    def swapping_saver(
        self, var_list: Any = None, name: str = "swapping_saver", **kwargs: Any
    ) -> Any:
        """A saver that saves the centres under the names of the copies.

        Raises:
          RuntimeError: There are none.
        """
        if not self._global_map:
            raise RuntimeError(
                "global_center_variable is empty, please make sure this is called after model "
                "created and ElasticAverageCustomGetter is used when declaring you model"
            )
        chosen = tf.trainable_variables() if var_list is None else var_list
        if not isinstance(chosen, dict):
            chosen = {v.op.name: v for v in chosen}
        swapped = {
            key: [self._global_map.get(p, p) for p in v] if isinstance(v, list)
            else self._global_map.get(v, v)
            for key, v in chosen.items()
        }  # fmt: skip
        return tf.train.Saver(swapped, name=name, **kwargs)


class AGNOptimizer(_PeriodicOptimizer):
    """Accumulated gradient normalization (Hermans, Spanakis and Möckel, 2017).

    Workers train copies, add their gradients up, and apply the mean to the centre now and then.
    """

    def __init__(
        self, optimizer: Any, num_worker: int, custom_getter: AGNCustomGetter,
        communication_period: int = 10, use_locking: bool = True, name: str = "AGNOptimizer",
    ) -> None:  # fmt: skip
        super().__init__(
            optimizer, num_worker, custom_getter, communication_period, use_locking, name
        )
        self._grad_map = custom_getter._grad_map

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: Any = None
    ) -> Any:
        """A step of the worker's copies, and of the centre when one is due."""
        pairs = [(g, v) for g, v in grads_and_vars if g is not None]
        updates = [self._apply_on_worker(pairs)]
        updates += [assign_add(self._grad_map[v], g) for g, v in pairs]
        copies = [v for _, v in pairs]
        sums = [self._grad_map[v] for v in copies]

        def meet() -> Any:
            means = [assign(s, s.read_value() / self._period) for s in sums]
            centres = [self._global_map[v] for v in copies]
            moved = self._opt.apply_gradients(
                [(tf.identity(mean), centre) for mean, centre in zip(means, centres, strict=True)]
            )
            with tf.control_dependencies([moved]):
                ends = [assign(v, self._global_map[v].read_value()) for v in copies]
                ends += [assign(s, tf.zeros_like(s)) for s in sums]
                if global_step is not None:
                    with tf.colocate_with(global_step):
                        ends.append(assign_add(global_step, 1))
                return tf.group(*ends)

        return self._meet_every_period(updates, meet)

    def get_init_op(self, task_index: int) -> Any:
        """Copies the centre to the worker; no gradients are added up yet."""
        moves = []
        for v in self._copies():
            zeros = tf.zeros_like(self._grad_map[v])
            moves += [assign(v, self._global_map[v]), assign(self._grad_map[v], zeros)]
        return tf.group(*moves)
