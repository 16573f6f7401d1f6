"""The calls that connect layers: what a functional model is read from.

Every tensor that a layer gives carries `_keras_history`: (layer, number of the call, number of
the output). A `Node` is one call.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import millrace as tf


class KerasHistory(NamedTuple):
    """Which layer made a tensor, in which of its calls, as which output."""

    layer: Any
    node_index: int
    tensor_index: int


class Node:
    """One call of a layer.

    Attributes:
      layer: The layer that was called.
      inputs: Its inputs, in their structure.
      outputs: Its outputs, in their structure.
      arguments: Further positional arguments of the call.
      keywords: Its keywords.
    """

    def __init__(
        self, layer: Any, inputs: Any, outputs: Any, arguments: Any, keywords: Any
    ) -> None:
        self.layer = layer
        self.inputs = inputs
        self.outputs = outputs
        self.arguments = arguments
        self.keywords = keywords

    @property
    def flat_inputs(self) -> list[Any]:
        """Every tensor that went in, those among further arguments too."""
        found = tf.nest.flatten([self.inputs, list(self.arguments), dict(self.keywords)])
        return [value for value in found if isinstance(value, tf.Tensor)]

    @property
    def flat_outputs(self) -> list[Any]:
        """Every tensor that came out."""
        return list(tf.nest.flatten(self.outputs))


class Connections:
    """The calls of a layer, and its input and output where there is one call."""

    name: Any

    def __init__(self) -> None:
        self._inbound_nodes: list[Node] = []

    @property
    def inbound_nodes(self) -> list[Node]:
        """The calls of this layer, in order."""
        return self._inbound_nodes

    def _connect(self, inputs: Any, outputs: Any, args: Any, kwargs: Any) -> Any:
        """Notes a call; gives the outputs, each with its history."""
        given = {id(value) for value in tf.nest.flatten(inputs)}
        # A layer that gives back its input is a step of its own all the same.
        outputs = tf.nest.map_structure(
            lambda o: tf.identity(o) if id(o) in given and isinstance(o, tf.Tensor) else o, outputs
        )
        node = Node(self, inputs, outputs, args, kwargs)
        index = len(self._inbound_nodes)
        self._inbound_nodes.append(node)
        for number, output in enumerate(node.flat_outputs):
            if isinstance(output, tf.Tensor):
                output._keras_history = KerasHistory(self, index, number)  # type: ignore[attr-defined]
        return outputs

    def _only_node(self, what: str) -> Node:
        if not self._inbound_nodes:
            raise AttributeError(f"Layer {self.name} has no inbound nodes: it was not called yet.")
        if len(self._inbound_nodes) > 1:
            raise AttributeError(
                f'The layer "{self.name}" has multiple inbound nodes, hence the notion of "layer '
                f'{what}" is ill-defined. Use `get_{what.replace(" ", "_")}_at(node_index)` '
                "instead."
            )
        return self._inbound_nodes[0]

    def _node_at(self, node_index: int) -> Node:
        if node_index >= len(self._inbound_nodes):
            raise ValueError(
                f"Asked to get node {node_index} of layer {self.name}, but it has only "
                f"{len(self._inbound_nodes)} inbound nodes."
            )
        return self._inbound_nodes[node_index]

    @property
    def input(self) -> Any:
        """The input of the only call."""
        return self._only_node("input").inputs

    @property
    def output(self) -> Any:
        """The output of the only call."""
        return self._only_node("output").outputs

    @property
    def input_shape(self) -> Any:
        """The static shape of the only call's input."""
        return _shapes(self._only_node("input shape").inputs)

    @property
    def output_shape(self) -> Any:
        """The static shape of the only call's output."""
        return _shapes(self._only_node("output shape").outputs)

    @property
    def input_mask(self) -> Any:
        """The mask of the only call's input."""
        return tf.nest.map_structure(mask_of, self._only_node("input mask").inputs)

    @property
    def output_mask(self) -> Any:
        """The mask of the only call's output."""
        return tf.nest.map_structure(mask_of, self._only_node("output mask").outputs)

    def get_input_at(self, node_index: int) -> Any:
        """The input of a call."""
        return self._node_at(node_index).inputs

    def get_output_at(self, node_index: int) -> Any:
        """The output of a call."""
        return self._node_at(node_index).outputs

    def get_input_shape_at(self, node_index: int) -> Any:
        """The static shape of a call's input."""
        return _shapes(self._node_at(node_index).inputs)

    def get_output_shape_at(self, node_index: int) -> Any:
        """The static shape of a call's output."""
        return _shapes(self._node_at(node_index).outputs)

    def get_input_mask_at(self, node_index: int) -> Any:
        """The mask of a call's input."""
        return tf.nest.map_structure(mask_of, self._node_at(node_index).inputs)

    def get_output_mask_at(self, node_index: int) -> Any:
        """The mask of a call's output."""
        return tf.nest.map_structure(mask_of, self._node_at(node_index).outputs)


def is_keras_tensor(value: Any) -> bool:
    """Whether a layer made this tensor.

    Raises:
      ValueError: It is no tensor at all.
    """
    if not isinstance(value, tf.Tensor | tf.Variable | tf.SparseTensor):
        raise ValueError(
            f"Unexpectedly found an instance of type `{type(value)}`. Expected a symbolic tensor "
            "instance."
        )
    return hasattr(value, "_keras_history")


def mask_of(value: Any) -> Any:
    """The mask that a layer gave a tensor, or None."""
    return getattr(value, "_keras_mask", None)


def _shapes(values: Any) -> Any:
    def sizes(value: Any) -> Any:
        known = value.shape
        return None if known.ndims is None else tuple(known.as_list())

    if isinstance(values, tf.Tensor):
        return sizes(values)
    return [sizes(value) for value in tf.nest.flatten(values)]
