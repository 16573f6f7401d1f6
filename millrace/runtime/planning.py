"""From a task's program to its plan: the passes of a task, then the stages."""

from __future__ import annotations

from millrace.passes import pipeline
from millrace.passes.node import Program, Setting
from millrace.runtime import tiers
from millrace.runtime.compilable import compilable, joinable
from millrace.runtime.plan import Plan
from millrace.runtime.stages import stages_of


def plan_of(program: Program, *, feeds_one_by_one: bool = False) -> Plan:
    """The plan of a program.

    Args:
      program: All nodes of it run on this task.
      feeds_one_by_one: Whether its arguments arrive one after the other, in a partial run.
    """
    setting = Setting(
        feeds_one_by_one=feeds_one_by_one,
        compilable=compilable,
        joinable=None if tiers.mode() is tiers.Mode.NOW else joinable,
    )
    grouped = pipeline.for_task(program.with_setting(setting))
    return Plan(grouped, stages_of(grouped, plan_of))
