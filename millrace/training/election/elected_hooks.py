"""The hooks of an elected session: which of a program's hooks are the chief's, and which change."""

from __future__ import annotations

from collections.abc import Iterable

from millrace.training.election.session import ChiefOnly, Office
from millrace.training.election.sync_replicas import ElectedSyncReplicasHook
from millrace.training.hooks.checkpoint_saver import CheckpointSaverHook
from millrace.training.hooks.session_run_hook import SessionRunHook
from millrace.training.replicas.sync_replicas_optimizer import SyncReplicasHook


def elected_hooks(
    office: Office,
    chief_only: Iterable[SessionRunHook],
    writing: Iterable[SessionRunHook],
    hooks: Iterable[SessionRunHook],
) -> list[SessionRunHook]:
    """All hooks of one worker, in the order of a session whose chief is known.

    Args:
      office: Says whether this worker is chief.
      chief_only: What the program has for the chief.
      writing: The usual ones that write checkpoints, summaries and the speed.
      hooks: What the program has for every worker; or, since it thinks it knows the chief, for
        the worker that it takes for it.
    """
    return [
        office,
        *(ChiefOnly(office, hook) for hook in chief_only),
        *(ChiefOnly(office, hook, late=True) for hook in writing),
        *(_elected(office, hook) for hook in hooks),
    ]


def _elected(office: Office, hook: SessionRunHook) -> SessionRunHook:
    if isinstance(hook, SyncReplicasHook):
        return ElectedSyncReplicasHook(hook, office)
    if isinstance(hook, CheckpointSaverHook):
        return ChiefOnly(office, hook)
    return hook
