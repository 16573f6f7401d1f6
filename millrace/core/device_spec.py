"""Device names such as `/job:ps/replica:0/task:1/device:CPU:0`, whole or in part.

Invariants: a component is None when it is not specified; `to_string()` writes components in one
order and with "device:" before the type, so equal specs have equal strings; an index that is not
specified is written "*". Parsing is cached: graphs have many ops and few devices.

Must not: know which devices exist. That is the placer's business.
"""

from __future__ import annotations

import functools
from typing import Any

# Types that may stand without "device:" before them (/cpu:0, /GPU:1).
_SHORT_FORM_TYPES = frozenset({"CPU", "GPU", "TPU", "CUSTOM", "EPU"})

_Components = tuple[str | None, int | None, int | None, str | None, int | None]


class DeviceSpec:
    """A device name in parts, each of which may be missing.

    As in TF1, a spec can be changed through its attributes, `parse_from_string` and `merge_from`.
    """

    __slots__ = ("_device_index", "_device_type", "_job", "_replica", "_string", "_task")

    def __init__(
        self,
        job: Any = None,
        replica: Any = None,
        task: Any = None,
        device_type: Any = None,
        device_index: Any = None,
    ) -> None:
        """Makes a spec.

        Args:
            job: The job's name.
            replica: The replica's number (an int or its digits).
            task: The task's number.
            device_type: E.g. "CPU" or "GPU"; "cpu" and "gpu" become upper case.
            device_index: The device's number; None means any.
        """
        self._set((job, replica, task, device_type, device_index))

    def _set(self, components: tuple[Any, Any, Any, Any, Any]) -> None:
        job, replica, task, device_type, device_index = components
        self._job = None if job is None else str(job)
        self._replica = None if replica is None else int(replica)
        self._task = None if task is None else int(task)
        self._device_type = _as_device_type(device_type)
        self._device_index = None if device_index is None else int(device_index)
        self._string: str | None = None

    @classmethod
    def from_string(cls, spec: str | None) -> DeviceSpec:
        """Parses a name, e.g. "/job:ps/task:1/cpu:0".

        Raises:
            ValueError: If a part is not understood or a part's number is not a number.
        """
        return cls(*_parse(spec or ""))

    def parse_from_string(self, spec: str | None) -> DeviceSpec:
        """Replaces all components by those of a name; returns itself."""
        self._set(_parse(spec or ""))
        return self

    def to_string(self) -> str:
        """The canonical name, e.g. "/job:ps/task:1/device:CPU:0"; empty if nothing is specified."""
        if self._string is None:
            self._string = _write(*self._components())
        return self._string

    def merge_from(self, dev: DeviceSpec) -> None:
        """Takes over every component that `dev` specifies."""
        self._set(_merge(self._components(), dev._components()))

    def make_merged_spec(self, dev: DeviceSpec) -> DeviceSpec:
        """Returns a new spec with the components of `dev` where it has them, else this one's."""
        return self.__class__(*_merge(self._components(), dev._components()))

    def replace(self, **components: Any) -> DeviceSpec:
        """Returns a copy with the named components changed."""
        kept = {
            "job": self._job,
            "replica": self._replica,
            "task": self._task,
            "device_type": self._device_type,
            "device_index": self._device_index,
        }
        return self.__class__(**{**kept, **components})

    def _components(self) -> _Components:
        return (self._job, self._replica, self._task, self._device_type, self._device_index)

    @property
    def job(self) -> str | None:
        """The job's name, or None."""
        return self._job

    @job.setter
    def job(self, job: Any) -> None:
        self._job = None if job is None else str(job)
        self._string = None

    @property
    def replica(self) -> int | None:
        """The replica's number, or None."""
        return self._replica

    @replica.setter
    def replica(self, replica: Any) -> None:
        self._replica = None if replica is None else int(replica)
        self._string = None

    @property
    def task(self) -> int | None:
        """The task's number, or None."""
        return self._task

    @task.setter
    def task(self, task: Any) -> None:
        self._task = None if task is None else int(task)
        self._string = None

    @property
    def device_type(self) -> str | None:
        """The type, e.g. "CPU", or None."""
        return self._device_type

    @device_type.setter
    def device_type(self, device_type: Any) -> None:
        self._device_type = _as_device_type(device_type)
        self._string = None

    @property
    def device_index(self) -> int | None:
        """The device's number, or None for any."""
        return self._device_index

    @device_index.setter
    def device_index(self, device_index: Any) -> None:
        self._device_index = None if device_index is None else int(device_index)
        self._string = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceSpec) and self.to_string() == other.to_string()

    def __hash__(self) -> int:
        return hash(self.to_string())

    def __repr__(self) -> str:
        return (
            f"<DeviceSpec(job={self._job}, replica={self._replica}, task={self._task}, "
            f"device_type={self._device_type}, device_index={self._device_index})>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return DeviceSpec, self._components()


def _as_device_type(device_type: Any) -> str | None:
    if device_type is None:
        return None
    return "CPU" if device_type == "cpu" else "GPU" if device_type == "gpu" else str(device_type)


@functools.lru_cache(maxsize=65536)
def _parse(spec: str) -> _Components:
    job: str | None = None
    replica: int | None = None
    task: int | None = None
    device_type: str | None = None
    device_index: int | None = None
    for part in spec.split("/"):
        if not part:
            continue
        words = part.split(":")
        key = words[0]
        if key == "job" and len(words) == 2:
            job = words[1]
        elif key == "replica" and len(words) == 2:
            replica = _index(words[1], part, spec)
        elif key == "task" and len(words) == 2:
            task = _index(words[1], part, spec)
        elif (key == "device" and len(words) == 3) or (
            key.upper() in _SHORT_FORM_TYPES and len(words) <= 2
        ):
            if device_type is not None:
                raise ValueError(
                    f"Multiple device types are not allowed while parsing the device spec: {spec}."
                )
            if key == "device":
                device_type = _as_device_type(words[1])
                device_index = _index(words[2], part, spec)
            else:
                device_type = key.upper()
                device_index = _index(words[1], part, spec) if len(words) == 2 else None
        elif key:
            raise ValueError(
                f"Unknown attribute: '{key}' in device spec '{spec}'. Its parts are /job:<name>, "
                "/replica:<number>, /task:<number> and /device:<type>:<number>."
            )
    return job, replica, task, device_type, device_index


def _index(digits: str, part: str, spec: str) -> int | None:
    """Parses a number; "*" stands for any, which the specs of running graphs contain."""
    if digits == "*":
        return None
    try:
        return int(digits)
    except ValueError:
        raise ValueError(
            f"'{digits}' is not a number in '/{part}' of the device spec '{spec}'."
        ) from None


@functools.lru_cache(maxsize=65536)
def _write(
    job: str | None,
    replica: int | None,
    task: int | None,
    device_type: str | None,
    device_index: int | None,
) -> str:
    parts = []
    if job is not None:
        parts.append(f"/job:{job}")
    if replica is not None:
        parts.append(f"/replica:{replica}")
    if task is not None:
        parts.append(f"/task:{task}")
    if device_type is not None:
        parts.append(f"/device:{device_type}:{'*' if device_index is None else device_index}")
    return "".join(parts)


def _merge(outer: _Components, inner: _Components) -> _Components:
    return (
        outer[0] if inner[0] is None else inner[0],
        outer[1] if inner[1] is None else inner[1],
        outer[2] if inner[2] is None else inner[2],
        outer[3] if inner[3] is None else inner[3],
        outer[4] if inner[4] is None else inner[4],
    )


@functools.lru_cache(maxsize=65536)
def _merge_into_name(outer: _Components, inner: str) -> str:
    return _write(*_merge(outer, _parse(inner)))


def _components_of(device: DeviceSpec | str | None) -> _Components:
    return device._components() if isinstance(device, DeviceSpec) else _parse(device or "")


def canonical_name(device: DeviceSpec | str | None) -> str:
    """Returns the canonical string of a spec or name; "" for None."""
    return _write(*_components_of(device))


class MergeDevice:
    """A device function: completes an op's device from one `tf.device(...)` scope.

    Scopes apply from the innermost to the outermost, so what the op already has comes from
    further inside and wins.
    """

    __slots__ = ("_outer",)

    def __init__(self, spec: DeviceSpec | str | None) -> None:
        # The components are a snapshot: the caller may change its DeviceSpec later.
        self._outer = _components_of(spec)

    def __call__(self, op: Any) -> DeviceSpec:
        """Returns the spec for an Operation or NodeDef (anything with `.device`)."""
        return DeviceSpec(*_merge(self._outer, _parse(op.device or "")))

    def merge_name(self, device: str | None) -> str:
        """Returns the canonical name that an op with `device` gets from this scope."""
        return _merge_into_name(self._outer, device or "")

    @property
    def is_null_merge(self) -> bool:
        """Whether this scope specifies nothing."""
        return not any(component is not None for component in self._outer)

    def __repr__(self) -> str:
        return f"<MergeDevice {_write(*self._outer)!r}>"


def merge_device(spec: MergeDevice | DeviceSpec | str | None) -> MergeDevice:
    """Returns the device function for a partial spec, as `tf.device(spec)` applies it."""
    return spec if isinstance(spec, MergeDevice) else MergeDevice(spec)


def matches(pattern: DeviceSpec | str | None, full: DeviceSpec | str | None) -> bool:
    """Whether `full` is one of the devices that `pattern` describes.

    Every component that the pattern specifies must be there in `full` and equal. A pattern that
    specifies nothing matches everything; the job name "*" matches every job.
    """
    wanted = _components_of(pattern)
    found = _components_of(full)
    return all(w is None or w == "*" or w == f for w, f in zip(wanted, found, strict=True))


def is_subset(inner: DeviceSpec | str | None, outer: DeviceSpec | str | None) -> bool:
    """Whether every device that `inner` describes is described by `outer` too."""
    return matches(outer, inner)


def are_compatible(one: DeviceSpec | str | None, other: DeviceSpec | str | None) -> bool:
    """Whether some device fits both: no component is specified differently in the two."""
    return all(
        a is None or b is None or "*" in (a, b) or a == b
        for a, b in zip(_components_of(one), _components_of(other), strict=True)
    )


def task_of(device: str) -> str:
    """The task in a full device name: ``/job:ps/replica:0/task:0``."""
    return device.partition("/device:")[0]
