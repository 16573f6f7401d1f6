"""`VariableDeviceChooser`: which parameter server each new variable goes to."""

from __future__ import annotations

from typing import Any

import millrace as tf


class VariableDeviceChooser:
    """A device function for variables: parameter servers in turn, or one device for all."""

    def __init__(
        self,
        num_tasks: int = 0,
        job_name: str = "ps",
        device_type: str = "CPU",
        device_index: int = 0,
        replica: Any = None,
    ) -> None:
        self._job_name = job_name
        self._device_type = device_type
        self._device_index = device_index
        self._replica = replica
        self._num_tasks = num_tasks
        self._next_task_id = 0

    def __call__(self, op: Any) -> str:
        """The device of the next variable."""
        spec = tf.DeviceSpec(
            replica=self._replica,
            device_type=self._device_type,
            device_index=self._device_index,
        )
        if self._num_tasks > 0:
            spec = tf.DeviceSpec(
                job=self._job_name,
                task=self._next_task_id,
                replica=self._replica,
                device_type=self._device_type,
                device_index=self._device_index,
            )
            self._next_task_id = (self._next_task_id + 1) % self._num_tasks
        return str(spec.to_string())
