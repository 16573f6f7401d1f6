"""A cluster learns MNIST although its tasks are killed, stopped and restarted; see chaos.py."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from chaos import WORKERS, Chaos, table

FAULTS = 10
#: A step of every worker more, after the chief has asked to stop, is in the checkpoint too.
OVERSHOOT = 4 * WORKERS


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_training_survives_whatever_happens_to_one_task_at_a_time(mode: str, tmp_path: Path):
    chaos = Chaos(tmp_path, seed=FAULTS, sync=mode == "sync")
    learned = chaos.run(FAULTS, spacing=20)
    print("\n".join(table(chaos.faults)))
    assert 0 <= learned["step"] - learned["last_step"] <= OVERSHOOT
    assert learned["accuracy"] > 0.96, learned
    if mode == "async":  # A round that a chief applied on one ps only is restored.
        assert not any(fault.lost for fault in chaos.faults if fault.kind == "kill chief")
    # Between two faults every worker trained. All kinds of faults were among them.
    assert len(chaos.faults) == FAULTS and len({fault.kind for fault in chaos.faults}) == 6
