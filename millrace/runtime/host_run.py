"""Tier 0: a stage's nodes run one by one on NumPy, at any shape and without a compiler."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.compiler.xla import jax
from millrace.passes.node import Node
from millrace.platform import process_tuning
from millrace.runtime import guarded_writes
from millrace.runtime.kernel_call import Services, StoredState, run_nodes
from millrace.runtime.split_stage import SeenShapes
from millrace.runtime.stage_form import StageForm
from millrace.runtime.stage_program import random_key


def run(form: StageForm, inputs: list[Any], step: Any, seen: SeenShapes | None = None) -> list[Any]:
    """Runs a stage; the locks of its variables are held.

    Args:
      form: The stage.
      inputs: The values of its inputs.
      step: The step's context.
      seen: Notes the shapes of all values; None if nobody wants to know.

    Returns:
      The values of its outputs.
    """
    process_tuning.use_one_blas_thread()
    env = {
        edge: value if type(value) is np.ndarray else jax.tree.map(np.asarray, value)
        for edge, value in zip(form.inputs, inputs, strict=True)
    }
    keys: dict[Node, Any] = {}
    if form.random_nodes:
        counters = step.random_counters(form.random_nodes)
        keys = {n: random_key(n, counters[i]) for i, n in enumerate(form.random_nodes)}
    stored = StoredState(step.resources)
    begin = None if seen is None else seen.begin
    if form.writes.any:
        state = guarded_writes.PendingState(stored)
        services = Services(state, rng=keys.get)
        guarded_writes.run(form.nodes, form.writes, state, env, services, form.snapshots, begin)
    else:
        run_nodes(form.nodes, env, Services(stored, rng=keys.get), form.snapshots, begin)
    if seen is not None:
        seen.note(env)
    return [env[edge] for edge in form.outputs]
