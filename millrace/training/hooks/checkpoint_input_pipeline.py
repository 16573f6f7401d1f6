"""CheckpointInputPipelineHook: saves the input pipeline's place beside the model's checkpoints."""

from __future__ import annotations

from typing import Any

from millrace.graph.defaults import get_collection
from millrace.ops.data.iterator import GLOBAL_ITERATORS
from millrace.training.checkpoint.iterator_state import IteratorSaveable
from millrace.training.checkpoint.saver import Saver
from millrace.training.checkpoint.state import latest_checkpoint
from millrace.training.hooks.checkpoint_saver import CheckpointSaverHook
from millrace.training.hooks.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)


class _InputSaver(Saver):
    """A Saver whose checkpoints stand in a list of their own: the model's are others."""

    def __init__(self, var_list: Any, latest_filename: str) -> None:
        super().__init__(var_list, sharded=True)
        self._own_latest_filename = latest_filename

    def save(self, sess: Any, save_path: Any, *args: Any, **keywords: Any) -> str | None:
        """As `Saver.save`."""
        keywords["latest_filename"] = self._own_latest_filename
        keywords["write_meta_graph"] = False
        return super().save(sess, save_path, *args, **keywords)


class CheckpointInputPipelineHook(SessionRunHook):
    """Saves all iterators of the graph with every checkpoint, and restores them in a new session.

    Every worker has a checkpoint of its own, in the model's folder.

    Args:
      estimator: Has `model_dir` and `config` (an Estimator's): folder, periods, the task.
      external_state_policy: Not used.
    """

    def __init__(self, estimator: Any, external_state_policy: Any = None) -> None:
        config = getattr(estimator, "_config", None) or estimator.config
        prefix = "input"
        if getattr(config, "num_worker_replicas", 1) > 1:
            prefix += f"_{config.task_type}_{config.task_id}"
        self._folder = estimator.model_dir
        self._latest_filename = f"checkpoint_{prefix}"
        self._hook = CheckpointSaverHook(
            estimator.model_dir,
            save_secs=config.save_checkpoints_secs,
            save_steps=config.save_checkpoints_steps,
            checkpoint_basename=f"{prefix}.ckpt",
            save_graph_def=False,
        )
        self._is_first_run = True

    def begin(self) -> None:
        """Adds what saves the iterators to the graph."""
        iterators = get_collection(GLOBAL_ITERATORS)
        if not iterators:
            raise ValueError(
                "CheckpointInputPipelineHook: the graph has no tf.data iterator to save."
            )
        saveables = [IteratorSaveable(each) for each in iterators]
        self._hook._saver = _InputSaver(saveables, self._latest_filename)
        self._hook.begin()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Nothing yet: hooks that initialise iterators may come after this one."""
        self._is_first_run = True

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Restores the iterators, or saves how they begin, before the first step."""
        if self._is_first_run:
            self._is_first_run = False
            self._restore_or_save(run_context.session)
        return self._hook.before_run(run_context)

    def _restore_or_save(self, session: Any) -> None:
        hook = self._hook
        newest = latest_checkpoint(self._folder, self._latest_filename)
        if newest:
            hook._get_saver().restore(session, newest)
            return
        step = session.run(hook._global_step_tensor)
        hook._save(session, step)
        hook._timer.update_last_triggered_step(step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Saves them when it is time."""
        self._hook.after_run(run_context, run_values)

    def end(self, session: Any) -> None:
        """Saves them a last time."""
        self._hook.end(session)
