"""Placement: which device runs each node.

Nodes that must be together (colocation groups, and the holders of a reference or a handle to a
variable, queue or table) form one group; a group's device is the first that satisfies the
merged requests of its members, else, with soft placement, the first device of the right task,
else an error that says what was asked and what there is. Branches and loops then go where the
state is that they use (`follow_handles.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from millrace.core import errors
from millrace.core.device_spec import DeviceSpec, are_compatible, matches
from millrace.passes.follow_handles import follow_handles
from millrace.passes.node import Node, Program


def local_devices(device_count: dict[str, int]) -> list[str]:
    """The devices of an in-process session: CPU:0 and as many more as are asked for."""
    count = device_count.get("CPU", 1) or 1
    return [f"/job:localhost/replica:0/task:0/device:CPU:{i}" for i in range(count)]


def place(program: Program) -> Program:
    """Gives every node a device.

    Raises:
      InvalidArgumentError: No device satisfies a request.
    """
    setting = program.setting
    if not setting.devices:
        return program
    program = program.copy()
    _Placer(setting.devices, setting.allow_soft_placement).place(program.nodes)
    if setting.log_placement is not None:
        for node in program.nodes:
            setting.log_placement(f"{node.name}: ({node.type}): {node.device}")
    return program


class _Placer:
    """Chooses among given devices."""

    def __init__(self, devices: Sequence[str], soft: bool) -> None:
        self._devices = devices
        self._specs = [DeviceSpec.from_string(device) for device in devices]
        self._soft = soft
        self._cache: dict[str, str] = {}

    def place(self, nodes: Sequence[Node]) -> None:
        """Replaces each node's requested device by the one that it gets."""
        for members in _groups(nodes):
            requested = [m for m in members if m.device]
            chosen = self._choose(requested) if requested else self._devices[0]
            for node in members:
                node.device = chosen
        follow_handles(nodes)

    def _choose(self, requested: list[Node]) -> str:
        wanted = DeviceSpec.from_string(requested[0].device)
        for node in requested[1:]:
            spec = DeviceSpec.from_string(node.device)
            if not are_compatible(wanted, spec) and not self._soft:
                raise errors.InvalidArgumentError(
                    None,
                    node.source,
                    f"Cannot colocate nodes {node.name} and {requested[0].name}: they ask for "
                    f"different devices, {node.device} and {requested[0].device}.",
                )
            wanted = spec.make_merged_spec(wanted)
        text = wanted.to_string()
        found = self._cache.get(text)
        if found is None:
            found = self._cache[text] = self._find(wanted, requested[0])
        return found

    def _find(self, wanted: DeviceSpec, node: Node) -> str:
        for spec, device in zip(self._specs, self._devices, strict=True):
            if matches(wanted, spec):
                return device
        if self._soft:
            # Same task, any device; the index and type were only a wish.
            loose = DeviceSpec(job=wanted.job, replica=wanted.replica, task=wanted.task)
            for spec, device in zip(self._specs, self._devices, strict=True):
                if matches(loose, spec):
                    return device
        raise errors.InvalidArgumentError(
            None,
            node.source,
            f"Cannot assign a device for operation {node.name}: node {node.name} was explicitly "
            f"assigned to {node.device} but available devices are [ {', '.join(self._devices)} ]. "
            "Make sure the device specification refers to a valid device, or set "
            "allow_soft_placement in ConfigProto.",
        )


def _can_share(one: str, other: str) -> bool:
    """Whether two requests may mean the same device."""
    if not one or not other or one == other:
        return True
    return are_compatible(DeviceSpec.from_string(one), DeviceSpec.from_string(other))


def _groups(nodes: Sequence[Node]) -> list[list[Node]]:
    """Nodes that must share a device, in order of first member."""
    parent: dict[Node, Node] = {node: node for node in nodes}

    def root(node: Node) -> Node:
        while parent[node] is not node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    by_name = {node.name: node for node in nodes}
    leaders: dict[str, Node] = {}
    for node in nodes:
        for group in node.attrs.get("_class", ()):
            name = group.decode().removeprefix("loc:@")
            leader = leaders.setdefault(name, by_name.get(name, node))
            parent[root(node)] = root(leader)
        places = node.definition.signature.input_slices(node.attrs)
        for arg, place in zip(node.definition.signature.inputs, places, strict=True):
            if not arg.is_ref and not (arg.dtype is not None and arg.dtype.name == "resource"):
                continue
            edges = node.inputs[place] if isinstance(place, slice) else [node.inputs[place]]
            for edge in edges:
                if edge.node not in parent:
                    continue
                parent[root(node)] = root(edge.node)
                if not arg.is_ref and not _can_share(node.device, edge.node.device):
                    # What is behind a handle stays where it is: who uses it goes there.
                    node.device = edge.node.device
    members: dict[Node, list[Node]] = {}
    for node in nodes:
        members.setdefault(root(node), []).append(node)
    return list(members.values())
