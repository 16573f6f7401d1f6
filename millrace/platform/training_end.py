"""How an evaluator learns that nobody trains any more: its launcher makes a file.

A training that ends before `max_steps` (its input ended, or it was stopped early) writes no
checkpoint that says so.
"""

from __future__ import annotations

import os

#: The variable with the name of the file.
TRAINING_IS_OVER = "MILLRACE_TRAINING_IS_OVER"


def training_is_over() -> bool:
    """Whether the launcher of this task says that all workers have ended."""
    marker = os.environ.get(TRAINING_IS_OVER)
    return marker is not None and os.path.exists(marker)


def is_watched() -> bool:
    """Whether a launcher reads this task's log."""
    return TRAINING_IS_OVER in os.environ
