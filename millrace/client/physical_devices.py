"""The devices of this process, by `tf.config`'s names for them."""

from __future__ import annotations

from typing import NamedTuple

from millrace.client.device_lib import list_local_devices


class PhysicalDevice(NamedTuple):
    """A device of this machine: ``/physical_device:CPU:0``."""

    name: str
    device_type: str


class LogicalDevice(NamedTuple):
    """A device that graphs name: ``/device:CPU:0``."""

    name: str
    device_type: str


def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """The devices of this machine, or those of one type: ``CPU``, ``GPU``."""
    return [
        PhysicalDevice(each.name.replace("/device:", "/physical_device:"), each.device_type)
        for each in list_local_devices()
        if device_type in (None, each.device_type)
    ]


def list_logical_devices(device_type: str | None = None) -> list[LogicalDevice]:
    """The devices that graphs can name, or those of one type."""
    return [
        LogicalDevice(each.name, each.device_type)
        for each in list_local_devices()
        if device_type in (None, each.device_type)
    ]


def get_visible_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """The devices that are used: all of them."""
    return list_physical_devices(device_type)


def set_visible_devices(
    devices: list[PhysicalDevice] | PhysicalDevice, device_type: str | None = None
) -> None:
    """Takes only what changes nothing.

    Raises:
      NotImplementedError: Devices would have to be hidden, which JAX does when the process starts
        (``JAX_PLATFORMS``, ``CUDA_VISIBLE_DEVICES``).
    """
    wanted = [devices] if isinstance(devices, PhysicalDevice) else list(devices or [])
    if sorted(wanted) != sorted(list_physical_devices(device_type)):
        raise NotImplementedError(
            "tf.config cannot hide devices from a process that runs: set JAX_PLATFORMS or "
            "CUDA_VISIBLE_DEVICES before it starts"
        )


def get_memory_growth(device: PhysicalDevice) -> bool:
    """Whether memory is taken as it is needed.

    Raises:
      ValueError: The device has no memory of its own.
    """
    _check_has_memory(device)
    return False


def set_memory_growth(device: PhysicalDevice, enable: bool) -> None:
    """Refuses to change how memory is taken: ``XLA_PYTHON_CLIENT_PREALLOCATE`` says so.

    Raises:
      ValueError: The device has no memory of its own.
      NotImplementedError: It has.
    """
    _check_has_memory(device)
    if enable:
        raise NotImplementedError(
            "memory growth is set before the process starts: XLA_PYTHON_CLIENT_PREALLOCATE=false"
        )


def _check_has_memory(device: PhysicalDevice) -> None:
    if device.device_type != "GPU":
        raise ValueError("Cannot set memory growth on non-GPU devices")
    if device not in list_physical_devices():
        raise ValueError(f"Unrecognized device: {device!r}")
