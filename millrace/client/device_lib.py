"""`tensorflow.python.client.device_lib`: the devices of this process."""

from __future__ import annotations

from typing import Any, NamedTuple

from millrace.client.local import LocalBackend
from millrace.core.config import ConfigProto


class LocalDevice(NamedTuple):
    """One device, with the fields of TensorFlow's DeviceAttributes message."""

    name: str
    device_type: str
    memory_limit: int
    incarnation: int
    physical_device_desc: str = ""


def list_local_devices(session_config: Any = None) -> list[LocalDevice]:
    """The devices that a session with this configuration would have in this process."""
    backend = LocalBackend("", None, session_config or ConfigProto())
    try:
        return [
            LocalDevice(
                # Without job and task: they belong to a cluster, not to the machine.
                "/device:" + device.name.rpartition("/device:")[2],
                device.device_type,
                device.memory_limit,
                device.incarnation,
            )
            for device in backend.list_devices()
        ]
    finally:
        backend.close()
