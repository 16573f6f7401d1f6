"""Which objects a `tf.train.Checkpoint` holds, and under which keys their values are saved.

Objects form a graph: a Checkpoint has attributes, a list has items, an optimizer has variables of
its own and slots of others'. A variable's key is the path to it, so that it does not matter what
the variable is called. The graph is saved with the values, as a TrackableObjectGraph message, and
matched with the program's objects when they are restored. This module reads and writes no file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from millrace.core.config import TrackableObjectGraph
from millrace.graph.defaults import get_default_graph
from millrace.ops.state.variable import Variable
from millrace.training.optimizers.optimizer import Optimizer

#: What a variable's only attribute is called.
_VALUE = "VARIABLE_VALUE"


def is_trackable(value: Any) -> bool:
    """Whether something can be part of a Checkpoint."""
    return isinstance(value, Variable | Optimizer | list | tuple | dict) or hasattr(
        value, "_trackable_children"
    )


def children(value: Any) -> Iterator[tuple[str, Any]]:
    """The parts of an object, by name, in the order in which they are numbered."""
    if isinstance(value, Variable):
        return
    found: Any
    if isinstance(value, list | tuple):
        found = ((str(i), item) for i, item in enumerate(value))
    elif isinstance(value, dict):
        found = ((str(key), value[key]) for key in sorted(value, key=str))
    elif isinstance(value, Optimizer):
        graph = get_default_graph()
        named = {name: v for (name, _), v in value._non_slots.items() if v.graph is graph}
        found = sorted(named.items())
    else:
        found = value._trackable_children().items()
    for name, child in found:
        if is_trackable(child):
            yield name, child


class Node(NamedTuple):
    """One object: where it is, and the number of each of its children by name."""

    value: Any
    path: str
    children: dict[str, int]


class Slot(NamedTuple):
    """A variable that an optimizer keeps for another one."""

    optimizer: int
    original: int
    name: str
    variable: Any
    path: str


class ObjectGraph:
    """All objects that can be reached from one, numbered breadth first; slots come last."""

    def __init__(self, root: Any) -> None:
        """Walks from `root`."""
        self.nodes: list[Node] = [Node(root, "", {})]
        numbers = {id(root): 0}
        for node in self.nodes:  # Grows while it is walked.
            for name, child in children(node.value):
                if id(child) not in numbers:
                    numbers[id(child)] = len(self.nodes)
                    path = f"{node.path}/{_escape(name)}" if node.path else _escape(name)
                    self.nodes.append(Node(child, path, {}))
                node.children[name] = numbers[id(child)]
        self.slots = list(self._find_slots())

    def _find_slots(self) -> Iterator[Slot]:
        for number, node in enumerate(self.nodes):
            if not isinstance(node.value, Optimizer):
                continue
            for name in node.value.get_slot_names():
                for original, other in enumerate(self.nodes):
                    if not isinstance(other.value, Variable):
                        continue
                    variable = node.value.get_slot(other.value, name)
                    if variable is not None:
                        path = f"{other.path}/.OPTIMIZER_SLOT/{node.path}/{_escape(name)}"
                        yield Slot(number, original, name, variable, path)

    def variables(self) -> dict[str, Any]:
        """All variables by the key that they are saved under."""
        found = {_key(n.path): n.value for n in self.nodes if isinstance(n.value, Variable)}
        found.update((_key(slot.path), slot.variable) for slot in self.slots)
        return found

    def to_proto(self) -> Any:
        """The graph as a TrackableObjectGraph message."""
        message = TrackableObjectGraph()
        for node in self.nodes:
            written = message.nodes.add()
            for name, number in node.children.items():
                written.children.add(node_id=number, local_name=name)
            if isinstance(node.value, Variable):
                _describe(written, node.value, node.path)
        for number, slot in enumerate(self.slots, start=len(self.nodes)):
            message.nodes[slot.optimizer].slot_variables.add(
                original_variable_node_id=slot.original,
                slot_name=slot.name,
                slot_variable_node_id=number,
            )
            _describe(message.nodes.add(), slot.variable, slot.path)
        for number in range(len(message.nodes)):
            message.nodes[number].has_checkpoint_values.value = _has_values(message, number, set())
        return message


class Match(NamedTuple):
    """What of a checkpoint the program has, and what of the program the checkpoint has.

    Attributes:
      found: Variables by the key that the checkpoint has them under.
      missing: The program's variables that the checkpoint does not have.
      unused: Paths in the checkpoint that have values which no object of the program takes.
      objects: How many of the program's objects were found, besides the root.
    """

    found: dict[str, Any]
    missing: list[Any]
    unused: list[str]
    objects: int


def match(message: Any, root: Any) -> Match:
    """Compares a saved graph with the objects that can be reached from `root`."""
    ours = ObjectGraph(root)
    by_number: dict[int, Any] = {0: root}
    paths = {0: "(root)"}
    waiting = [(0, ours.nodes[0])]
    for number, node in waiting:  # Grows while it is walked.
        for child in message.nodes[number].children:
            paths.setdefault(child.node_id, f"{paths[number]}.{child.local_name}")
            own = node.children.get(child.local_name)
            if own is not None and child.node_id not in by_number:
                by_number[child.node_id] = ours.nodes[own].value
                waiting.append((child.node_id, ours.nodes[own]))
    for number in list(by_number):
        for slot in message.nodes[number].slot_variables:
            original = by_number.get(slot.original_variable_node_id)
            where = paths.get(slot.original_variable_node_id, "(an object that is not there)")
            paths[slot.slot_variable_node_id] = f"{where}'s slot {slot.slot_name!r}"
            optimizer = by_number[number]
            if isinstance(original, Variable) and isinstance(optimizer, Optimizer):
                variable = optimizer.get_slot(original, slot.slot_name)
                if variable is not None:
                    by_number[slot.slot_variable_node_id] = variable
    found: dict[str, Any] = {}
    unused: list[str] = []
    for number, saved in enumerate(message.nodes):
        value = by_number.get(number)
        for attribute in saved.attributes:
            if isinstance(value, Variable) and attribute.name == _VALUE:
                found[attribute.checkpoint_key] = value
            else:
                unused.append(f"{paths.get(number, '?')} ({attribute.checkpoint_key})")
    taken = {id(variable) for variable in found.values()}
    missing = [v for v in ours.variables().values() if id(v) not in taken]
    return Match(found, missing, unused, len(by_number) - 1)


def _describe(node: Any, variable: Any, path: str) -> None:
    node.attributes.add(name=_VALUE, full_name=variable.op.name, checkpoint_key=_key(path))


def _key(path: str) -> str:
    return f"{path}/.ATTRIBUTES/{_VALUE}"


def _escape(name: str) -> str:
    """A name in which dots and slashes do not look like the path's own."""
    return name.replace(".", "..").replace("/", ".S")


def _has_values(message: Any, number: int, seen: set[int]) -> bool:
    """Whether a node or anything under it has a value."""
    if number in seen:
        return False
    seen.add(number)
    node = message.nodes[number]
    below = [child.node_id for child in node.children]
    below += [slot.slot_variable_node_id for slot in node.slot_variables]
    return bool(node.attributes) or any(_has_values(message, n, seen) for n in below)
