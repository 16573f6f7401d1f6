"""`InMemoryEvaluatorHook`: evaluates within the training, without checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import millrace as tf
from millrace.estimator.given_hooks import check_hooks
from millrace.ops.state.variable_changes import assign


class InMemoryEvaluatorHook(tf.train.SessionRunHook):
    """Evaluates at the start, every N steps and at the end of a training in one process.

    The values of the training's variables are copied into a graph for evaluation.
    """

    def __init__(
        self,
        estimator: Any,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Sequence[Any] | None = None,
        name: str | None = None,
        every_n_iter: int = 100,
    ) -> None:
        """Makes the hook.

        Args:
          estimator: The Estimator that is trained.
          input_fn: Gives what is evaluated.
          steps: How many batches; None for all.
          hooks: For the evaluation.
          name: Tells several evaluations apart.
          every_n_iter: Steps between evaluations.

        Raises:
          ValueError: `every_n_iter` is not positive, or the training has several tasks.
        """
        if every_n_iter is None or every_n_iter <= 0:
            raise ValueError(f"invalid every_n_iter={every_n_iter}.")
        config = estimator.config
        if config.num_ps_replicas > 0 or config.num_worker_replicas > 1:
            raise ValueError("InMemoryEvaluator supports only single machine (aka Local) setting.")
        self._estimator = estimator
        self._input_fn = input_fn
        self._eval_dir = estimator.eval_dir(name)
        self._hooks = [*check_hooks(hooks), *estimator._convert_eval_steps_to_hooks(steps)]
        self._timer = tf.train.SecondOrStepTimer(every_steps=every_n_iter)

    def begin(self) -> None:
        """Builds the graph of the evaluation.

        Raises:
          ValueError: The model has a saver or an initialisation function of its own.
        """
        self._timer.reset()
        self._iter_count = 0
        self._graph = tf.Graph()
        with self._graph.as_default():
            self._scaffold, self._update_op, self._eval_dict, self._all_hooks = (
                self._estimator._evaluate_build_graph(self._input_fn, self._hooks, None)
            )
            if self._scaffold.saver is not None:
                raise ValueError("InMemoryEvaluator does not support custom saver")
            if self._scaffold.init_fn is not None:
                raise ValueError("InMemoryEvaluator does not support custom init_fn")
            self._placeholders = {v.name: tf.placeholder(v.dtype) for v in tf.global_variables()}

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Evaluates what the training begins with.

        Raises:
          ValueError: The model saves something that is no variable.
        """
        if tf.get_collection(tf.GraphKeys.SAVEABLE_OBJECTS):
            raise ValueError(
                "InMemoryEvaluator does not support saveables other than global variables."
            )
        trained = {v.name: v for v in tf.global_variables()}
        self._trained = {name: trained[name] for name in self._placeholders if name in trained}
        with self._graph.as_default():
            evaluated = {v.name: v for v in tf.global_variables()}
            self._copy_op = tf.group(
                *[assign(evaluated[name], self._placeholders[name]) for name in self._trained]
            )
        self._evaluate(session)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Evaluates when it is time."""
        self._iter_count += 1
        if self._timer.should_trigger_for_step(self._iter_count):
            self._evaluate(run_context.session)

    def end(self, session: Any) -> None:
        """Evaluates what the training ends with."""
        self._evaluate(session)

    def _evaluate(self, train_session: Any) -> None:
        values = train_session.run(self._trained)
        feed = {self._placeholders[name]: value for name, value in values.items()}
        scaffold = tf.train.Scaffold(
            init_fn=lambda _, session: session.run(self._copy_op, feed_dict=feed),
            copy_from_scaffold=self._scaffold,
        )
        with self._graph.as_default():
            self._estimator._evaluate_run(
                checkpoint_path=None,
                scaffold=scaffold,
                update_op=self._update_op,
                eval_dict=self._eval_dict,
                all_hooks=self._all_hooks,
                output_dir=self._eval_dir,
            )
        self._timer.update_last_triggered_step(self._iter_count)
