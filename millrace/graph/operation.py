"""One node of a graph: an op type, its inputs, attributes, device and outputs."""

from __future__ import annotations

import linecache
import os
import sys
import traceback as traceback_module
from collections.abc import Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any

from tensorboard.compat.proto import attr_value_pb2, node_def_pb2, op_def_pb2

from millrace.core import device_spec
from millrace.core.dtypes import DType
from millrace.core.tensor_shape import TensorShape
from millrace.graph import attributes, stacks
from millrace.graph.registry import OpDefinition
from millrace.graph.tensor import Tensor

if TYPE_CHECKING:
    from millrace.graph.graph import Graph

_PACKAGE_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
#: Frames outside of the commands have only started the program.
_COMMANDS_FOLDER = os.path.join(_PACKAGE_FOLDER, "cli", "")
_MAX_FRAMES = 12


def _user_frames() -> list[tuple[CodeType, int]]:
    """(code, line) of the frames outside this package, innermost first."""
    frames: list[tuple[CodeType, int]] = []
    frame = sys._getframe(2)
    while frame is not None and len(frames) < _MAX_FRAMES:
        code = frame.f_code
        if not code.co_filename.startswith(_PACKAGE_FOLDER):
            frames.append((code, frame.f_lineno))
        elif code.co_filename.startswith(_COMMANDS_FOLDER):
            break
        frame = frame.f_back  # type: ignore[assignment]
    return frames


class Operation:
    """A node of a `Graph`. Made by `Graph.create_op`, never directly.

    Attributes:
      attrs: Stored attribute values by name (see `attributes`).
    """

    __slots__ = (
        "__weakref__",
        "_control_flow_context",
        "_control_inputs",
        "_control_outputs",
        "_device",
        "_frames",
        "_gradient_function",
        "_id",
        "_inputs",
        "_name",
        "_original_op",
        "attrs",
        "definition",
        "graph",
        "outputs",
        "type",
    )

    def __init__(
        self,
        graph: Graph,
        definition: OpDefinition,
        name: str,
        inputs: Sequence[Tensor],
        control_inputs: Sequence[Operation],
        attrs: dict[str, Any],
        output_types: Sequence[DType],
        node_id: int,
    ) -> None:
        self.graph = graph
        self.definition = definition
        self.type = definition.name
        self._name = name
        self._id = node_id
        self._inputs = list(inputs)
        self._control_inputs = list(control_inputs)
        self._control_outputs: list[Operation] = []
        self.attrs = attrs
        self._device = ""
        self._control_flow_context: Any = None
        self._gradient_function: Any = None
        self._original_op: Operation | None = None
        self._frames = [] if graph._is_clients else _user_frames()
        self.outputs = [Tensor(self, i, dtype) for i, dtype in enumerate(output_types)]
        for tensor in self._inputs:
            tensor._consumers.append(self)
        for op in self._control_inputs:
            op._control_outputs.append(self)

    @property
    def name(self) -> str:
        """The full name."""
        return self._name

    @property
    def device(self) -> str:
        """The device that was asked for, or the empty string."""
        return self._device

    # Under these names libraries written for TensorFlow 1 look into an operation.

    @property
    def _graph(self) -> Graph:
        return self.graph

    @property
    def _outputs(self) -> list[Tensor]:
        return self.outputs

    @property
    def _node_def(self) -> Any:
        return self.node_def

    @property
    def _op_def(self) -> op_def_pb2.OpDef:
        return self.op_def

    @property
    def _traceback(self) -> Any:
        return self.traceback

    @property
    def _is_stateful(self) -> bool:
        return bool(self.op_def.is_stateful)

    @property
    def _input_types(self) -> list[DType]:
        return [tensor.dtype for tensor in self._inputs]

    @property
    def _output_types(self) -> list[DType]:
        return [tensor.dtype for tensor in self.outputs]

    def _set_device(self, device: Any) -> None:
        self._device = device_spec.canonical_name(device)

    @property
    def inputs(self) -> Sequence[Tensor]:
        """The data inputs. Do not change the returned list."""
        return self._inputs

    @property
    def control_inputs(self) -> list[Operation]:
        """The operations that must run before this one."""
        return list(self._control_inputs)

    @property
    def op_def(self) -> op_def_pb2.OpDef:
        """The op type's signature as a message."""
        return self.definition.op_def()

    @property
    def node_def(self) -> node_def_pb2.NodeDef:
        """This node as a NodeDef message."""
        node = node_def_pb2.NodeDef(name=self._name, op=self.type, device=self._device)
        for tensor in self._inputs:
            index = tensor.value_index
            node.input.append(tensor.op.name if index == 0 else f"{tensor.op.name}:{index}")
        node.input.extend(sorted(f"^{op.name}" for op in self._control_inputs))
        declared = self.definition.signature.attrs
        for name, value in self.attrs.items():
            kind = declared[name].type if name in declared else attributes.infer_kind(value)
            node.attr[name].CopyFrom(attributes.to_proto(value, kind))
        return node

    @property
    def traceback(self) -> list[traceback_module.FrameSummary]:
        """Where the user's program built this operation, outermost first."""
        return [
            traceback_module.FrameSummary(
                code.co_filename,
                line,
                code.co_name,
                line=linecache.getline(code.co_filename, line).strip(),
            )
            for code, line in reversed(self._frames)
        ]

    def get_attr(self, name: str) -> Any:
        """The value of an attribute.

        Raises:
          ValueError: There is no such attribute.
        """
        if name not in self.attrs:
            raise ValueError(f"Operation {self._name!r} has no attr named {name!r}.")
        return self.attrs[name]

    def _set_attr(self, name: str, value: Any) -> None:
        if isinstance(value, attr_value_pb2.AttrValue):
            value = attributes.from_proto(value)
        self.attrs[name] = value

    def colocation_groups(self) -> list[bytes]:
        """The groups of operations that this one must share a device with."""
        groups = [g for g in self.attrs.get("_class", ()) if g.startswith(b"loc:@")]
        return groups or [b"loc:@" + self._name.encode()]

    def values(self) -> tuple[Tensor, ...]:
        """The outputs."""
        return tuple(self.outputs)

    def run(self, feed_dict: Any = None, session: Any = None) -> None:
        """Runs this operation in `session`, or in the default session."""
        stacks.session_for(session, self.graph, "Operation").run(self, feed_dict)

    def _add_control_inputs(self, ops: Sequence[Operation]) -> None:
        there = set(self._control_inputs)
        for op in ops:
            if op not in there:
                there.add(op)
                self._control_inputs.append(op)
                op._control_outputs.append(self)
                self.graph._note_change()

    def _add_control_input(self, op: Operation) -> None:
        self._add_control_inputs([op])

    def _remove_all_control_inputs(self) -> None:
        for op in self._control_inputs:
            op._control_outputs.remove(self)
        self._control_inputs = []
        self.graph._note_change()

    def _update_input(self, index: int, tensor: Tensor) -> None:
        """Replaces an input; used while control-flow contexts are built."""
        self._inputs[index]._consumers.remove(self)
        self._inputs[index] = tensor
        tensor._consumers.append(self)
        self.graph._note_change()

    def _extend(
        self,
        inputs: Sequence[Tensor],
        outputs: Sequence[tuple[DType, TensorShape]],
        attrs: dict[str, Any],
    ) -> list[Tensor]:
        """Adds inputs and outputs to a branch or loop, whose gradient needs more of it.

        Args:
          inputs: The new inputs, after those that it has.
          outputs: The types and shapes of the new outputs.
          attrs: Attributes that change.

        Returns:
          The new outputs.
        """
        for tensor in inputs:
            self._inputs.append(tensor)
            tensor._consumers.append(self)
        first = len(self.outputs)
        for i, (dtype, shape) in enumerate(outputs, first):
            tensor = Tensor(self, i, dtype)
            tensor._shape = shape
            self.outputs.append(tensor)
        self.attrs = {**self.attrs, **attrs}  # Programs that were made of it have the old ones.
        self.graph._note_change()
        return self.outputs[first:]

    def _get_control_flow_context(self) -> Any:
        return self._control_flow_context

    def _set_control_flow_context(self, context: Any) -> None:
        self._control_flow_context = context

    def __str__(self) -> str:
        return str(self.node_def)

    def __repr__(self) -> str:
        return f"<tf.Operation '{self._name}' type={self.type}>"
