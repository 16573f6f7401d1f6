"""`tf.config`: the devices of this process, as programs that build graphs ask for them.

What is set here about threads and placement is kept and told, and changes nothing: it is for eager
execution, and a session's settings come in its ConfigProto.
"""

from types import SimpleNamespace

from millrace.client.physical_devices import (
    LogicalDevice,
    PhysicalDevice,
    get_memory_growth,
    get_visible_devices,
    list_logical_devices,
    list_physical_devices,
    set_memory_growth,
    set_visible_devices,
)
from millrace.client.thread_settings import (
    get_inter_op_parallelism_threads,
    get_intra_op_parallelism_threads,
    get_soft_device_placement,
    set_inter_op_parallelism_threads,
    set_intra_op_parallelism_threads,
    set_soft_device_placement,
)

experimental = SimpleNamespace(
    get_memory_growth=get_memory_growth,
    get_visible_devices=get_visible_devices,
    list_logical_devices=list_logical_devices,
    list_physical_devices=list_physical_devices,
    set_memory_growth=set_memory_growth,
    set_visible_devices=set_visible_devices,
)
threading = SimpleNamespace(
    get_inter_op_parallelism_threads=get_inter_op_parallelism_threads,
    get_intra_op_parallelism_threads=get_intra_op_parallelism_threads,
    set_inter_op_parallelism_threads=set_inter_op_parallelism_threads,
    set_intra_op_parallelism_threads=set_intra_op_parallelism_threads,
)

__all__ = [
    "LogicalDevice",
    "PhysicalDevice",
    "experimental",
    "get_soft_device_placement",
    "list_logical_devices",
    "list_physical_devices",
    "set_soft_device_placement",
    "threading",
]
