"""`millrace.ray`: jobs on a cluster of Ray. It is not loaded by `import millrace`."""

from millrace.launchers.ray_job import PACK, SPREAD, RayError
from millrace.launchers.ray_run import run

__all__ = ["PACK", "SPREAD", "RayError", "run"]
