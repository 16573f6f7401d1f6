"""Nothing that `session.run` has acknowledged is lost or doubled; see standby_chaos.py."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from standby_chaos import Torment, table

FAULTS, TOGETHER = 12, 3


def test_no_acknowledged_step_is_lost_or_doubled_whatever_dies(tmp_path: Path) -> None:
    torment = Torment(tmp_path, seed=2)
    verdict = torment.run(FAULTS, TOGETHER)
    print("\n".join(table(torment.faults)))
    assert verdict.acknowledged > 100, verdict
    assert (verdict.lost, verdict.doubled) == (0, 0), verdict
    assert sum(fault.kind.endswith("primary") for fault in torment.faults) >= 3
