"""What `tf.config` is told about threads and placement: kept, and handed back.

In TensorFlow they are settings of eager execution. A session has its own, in its ConfigProto, and
XLA has its own threads.
"""

from __future__ import annotations

_settings: dict[str, int] = {"inter": 0, "intra": 0}
_soft_placement = [True]


def get_inter_op_parallelism_threads() -> int:
    """What was set; 0 if nothing was."""
    return _settings["inter"]


def set_inter_op_parallelism_threads(num_threads: int) -> None:
    """Keeps the number."""
    _settings["inter"] = num_threads


def get_intra_op_parallelism_threads() -> int:
    """What was set; 0 if nothing was."""
    return _settings["intra"]


def set_intra_op_parallelism_threads(num_threads: int) -> None:
    """Keeps the number."""
    _settings["intra"] = num_threads


def get_soft_device_placement() -> bool:
    """What was set; True if nothing was."""
    return _soft_placement[0]


def set_soft_device_placement(enabled: bool) -> None:
    """Keeps it."""
    _soft_placement[0] = enabled
