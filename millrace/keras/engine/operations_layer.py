"""Plain operations between layers: `x + 1` or `tf.concat` inside a functional model.

The operations that a tensor needs, back to tensors of layers, become one layer. When the model
is called with other inputs, they are copied.
"""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.keras.engine.base_layer import Layer


class OperationsLayer(Layer):
    """Operations of the graph, as a function of the layers' tensors that they begin with."""

    def __init__(self, output: Any, inputs: list[Any], copied: list[Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._output_name = output.name
        self._input_names = [tensor.name for tensor in inputs]
        self._copied = copied
        self.built = True
        self._connect(inputs, output, (), {})

    def call(self, inputs: Any) -> Any:
        """Copies the operations."""
        definition = tf.GraphDef()
        names = {op.name for op in self._copied}
        input_map: dict[str, Any] = dict(
            zip(self._input_names, tf.nest.flatten(inputs), strict=True)
        )
        for op in self._copied:
            definition.node.add().CopyFrom(op.node_def)
            for tensor in op.inputs:
                if tensor.op.name not in names and tensor.name not in input_map:
                    input_map[tensor.name] = tensor
        imported: Any = tf.import_graph_def(
            definition,
            input_map=input_map,
            return_elements=[self._output_name],
            name="operations",
        )
        return imported[0]

    def get_config(self) -> dict[str, Any]:
        """Cannot be made again without its graph.

        Raises:
          NotImplementedError: Always.
        """
        raise NotImplementedError(
            f"{self.name} holds operations between layers ({self._output_name}); put them into a "
            "Lambda layer or a layer of your own to save the model's configuration."
        )


def adopt(tensor: Any) -> None:
    """Makes a layer of the operations between a tensor and those of layers before it.

    Raises:
      ValueError: The tensor depends on no layer's.
    """
    dependent = dependent_ops(tensor)
    boundary: list[Any] = []
    for op in dependent:
        for each in op.inputs:
            if hasattr(each, "_keras_history") and not any(each is known for known in boundary):
                boundary.append(each)
    if not boundary:
        raise ValueError(
            "Output tensors to a Model must be the output of a Keras Layer (thus holding past "
            f"layer metadata). Found: {tensor}"
        )
    OperationsLayer(tensor, boundary, dependent, name=None)


def dependent_ops(tensor: Any) -> list[Any]:
    """The operations before `tensor` that depend on a tensor of a layer, in order."""
    order: list[Any] = []
    depends: dict[Any, bool] = {}
    stack: list[tuple[Any, bool]] = [(tensor.op, False)]
    while stack:
        op, expanded = stack.pop()
        if op in depends and not expanded:
            continue
        if not expanded:
            depends[op] = False
            stack.append((op, True))
            for each in op.inputs:
                if not hasattr(each, "_keras_history"):
                    stack.append((each.op, False))
            continue
        depends[op] = any(
            hasattr(each, "_keras_history") or depends.get(each.op, False) for each in op.inputs
        )
        if depends[op]:
            order.append(op)
    return order
