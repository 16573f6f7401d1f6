"""How many threads XLA gets in a task that shares its machine with other tasks.

XLA's pool has a thread for each core. Where every core has a task of its own, handing parts of a
small program from thread to thread costs more than it gains: the gradient of the seed programs'
MLP takes 370 µs of one thread and 500 to 800 µs of two. What is chosen here is chosen before
XLA's first use in the process; later it cannot change. NumPy's products get one thread where XLA
has one: its threads would take the cores from other tasks.
"""

from __future__ import annotations

import math

from millrace.compiler import xla
from millrace.core.cluster_spec import ClusterSpec
from millrace.graph.graph import Graph
from millrace.platform import process_tuning

#: A matrix product of as many multiplications is worth more threads than the machine's share.
MUCH_WORK = 200_000_000
#: What a dimension that is not known while the graph is built is taken for.
_UNKNOWN = 64
_LOOPBACK = ("localhost", "127.", "[::1]")


def choose(cores: int, tasks: int, same_job: int, work: int | None) -> int | None:
    """How many threads, or None for XLA's own choice.

    Args:
      cores: Of this machine.
      tasks: The cluster's tasks on this machine.
      same_job: Those of them that do the same as this one, at the same time.
      work: Multiplications of the largest product in the task's graph, if it has one.
    """
    if tasks <= 1:
        return None
    if work is None or work < MUCH_WORK:
        return max(1, cores // tasks)
    return max(1, cores // same_job)


def use(count: int) -> None:
    """Gives XLA so many threads, unless it has its threads already or the user chose."""
    if xla.use_threads(count) and count == 1:
        process_tuning.use_one_blas_thread()


def neighbours(cluster: ClusterSpec, job: str, address: str) -> tuple[int, int]:
    """How many tasks of the cluster are on an address's machine, and how many of a job."""
    tasks = same_job = 0
    for other in cluster.jobs:
        for index in cluster.task_indices(other):
            if _machine(cluster.task_address(other, index)) == _machine(address):
                tasks += 1
                same_job += other == job
    return tasks, same_job


def _machine(address: str) -> str:
    host = address.rpartition(":")[0]
    return "localhost" if host.startswith(_LOOPBACK) else host


def largest_product(graph: Graph) -> int:
    """Multiplications of the largest matrix product or convolution of a graph."""
    largest = 0
    for op in graph.get_operations():
        if op.type in ("MatMul", "BatchMatMul", "BatchMatMulV2"):
            turned = op.get_attr("transpose_a" if op.type == "MatMul" else "adj_x")
            shape = _sizes(op.inputs[0])
            summed = shape[-2 if turned else -1] if len(shape) > 1 else _UNKNOWN
        elif op.type == "Conv2D":
            summed = math.prod(_sizes(op.inputs[1])[:-1])
        else:
            continue
        largest = max(largest, summed * math.prod(_sizes(op.outputs[0])))
    return largest


def _sizes(tensor: object) -> list[int]:
    shape = tensor.shape  # type: ignore[attr-defined]
    if shape.dims is None:
        return [_UNKNOWN] * 2
    return [size if size is not None else _UNKNOWN for size in shape.as_list()]
