"""`Network`: layers connected from inputs to outputs, or a subclass with a `call` of its own.

A functional network keeps the calls (nodes) between its inputs and outputs in order. Called with
other inputs, it calls its layers again in that order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import millrace as tf
from millrace.keras import serialization
from millrace.keras.engine import operations_layer, state
from millrace.keras.engine.base_layer import CallContext, Layer
from millrace.keras.engine.input_layer import InputLayer
from millrace.keras.engine.node import Node


class Network(Layer):
    """A layer made of layers."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        name = kwargs.pop("name", None)
        functional = len(args) in (2, 3) or ("inputs" in kwargs and "outputs" in kwargs)
        if len(args) == 3:
            name = args[2]
        super().__init__(name=name, trainable=kwargs.pop("trainable", True))
        self._is_graph_network = functional
        self._nodes: list[Node] = []
        self.inputs: Any = None
        self.outputs: Any = None
        self._ordered_layers: list[Layer] = []
        if functional:
            inputs = args[0] if args else kwargs.pop("inputs")
            outputs = args[1] if len(args) > 1 else kwargs.pop("outputs")
            self._init_graph_network(inputs, outputs)
        if kwargs:
            raise TypeError(f"Keyword argument not understood: {sorted(kwargs)[0]!r}")

    # -- A functional network -----------------------------------------------------------------

    def _init_graph_network(self, inputs: Any, outputs: Any) -> None:
        self._nested_inputs, self._nested_outputs = inputs, outputs
        self.inputs = list(tf.nest.flatten(inputs))
        self.outputs = list(tf.nest.flatten(outputs))
        for tensor in self.inputs:
            if not hasattr(tensor, "_keras_history"):
                InputLayer(input_tensor=tensor, name=tensor.op.name.replace("/", "_"))
        for tensor in self.outputs:
            if not hasattr(tensor, "_keras_history"):
                operations_layer.adopt(tensor)
        self._nodes = self._ordered_nodes()
        self._ordered_layers = []
        for node in self._nodes:
            if not any(node.layer is known for known in self._ordered_layers):
                self._ordered_layers.append(node.layer)
        names = [layer.name for layer in self._ordered_layers]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(
                    f'The name "{name}" is used {names.count(name)} times in the model. All layer '
                    "names should be unique."
                )
        self._tracked_layers = [x for x in self._ordered_layers if x is not self]
        self.input_names = [t._keras_history.layer.name for t in self.inputs]
        self.output_names = self._unique_output_names()
        self._is_graph_network = True
        self.built = True
        self._call_arguments = None
        self._inbound_nodes = [Node(self, inputs, outputs, (), {})]

    def _unique_output_names(self) -> list[str]:
        found: list[str] = []
        for tensor in self.outputs:
            base = tensor._keras_history.layer.name
            name, number = base, 1
            while name in found:
                name, number = f"{base}_{number}", number + 1
            found.append(name)
        return found

    def _ordered_nodes(self) -> list[Node]:
        """The calls between inputs and outputs, each after those that it needs.

        Raises:
          ValueError: Something leads to an input that is not among the model's.
        """
        begin = {id(tensor) for tensor in self.inputs}
        order: list[Node] = []
        seen: set[int] = set()
        found_inputs = {id(node): node for node in (_node_of(tensor) for tensor in self.inputs)}

        def visit(tensor: Any) -> None:
            stack: list[tuple[Any, bool]] = [(tensor, False)]
            while stack:
                current, done = stack.pop()
                node = _node_of(current)
                if done:
                    order.append(node)
                    continue
                if id(node) in seen or id(current) in begin:
                    continue
                if not node.flat_inputs:
                    raise ValueError(
                        "Graph disconnected: cannot obtain value for tensor "
                        f'{current} at layer "{node.layer.name}". The model was given these '
                        f"inputs: {[t.name for t in self.inputs]}"
                    )
                seen.add(id(node))
                stack.append((current, True))
                for each in reversed(node.flat_inputs):
                    if not hasattr(each, "_keras_history"):
                        if _dependent(each):
                            operations_layer.adopt(each)
                        else:
                            continue
                    stack.append((each, False))

        for tensor in self.outputs:
            visit(tensor)
        inputs = [node for node in found_inputs.values() if isinstance(node.layer, InputLayer)]
        return inputs + [node for node in order if id(node) not in found_inputs]

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        """Calls the layers in order.

        Raises:
          NotImplementedError: A subclass has no `call`.
        """
        if not self._is_graph_network:
            raise NotImplementedError("When subclassing the `Model` class, implement `call`.")
        values: dict[int, Any] = {}
        given = tf.nest.flatten(inputs)
        if len(given) != len(self.inputs):
            raise ValueError(
                f"{self.name} expects {len(self.inputs)} inputs, but it received {len(given)}."
            )
        for tensor, value in zip(self.inputs, given, strict=True):
            values[id(tensor)] = value
        before = CallContext.training
        if training is not None:
            CallContext.training = training
        try:
            for node in self._nodes:
                if isinstance(node.layer, InputLayer):
                    continue

                def replaced(value: Any) -> Any:
                    return values.get(id(value), value)

                new_inputs = tf.nest.map_structure(replaced, node.inputs)
                args = tf.nest.map_structure(replaced, list(node.arguments))
                keywords = {
                    k: tf.nest.map_structure(replaced, v) if _has_tensor(v) else v
                    for k, v in node.keywords.items()
                }
                keywords.pop("mask", None)
                fixed = "training" in keywords and not _has_tensor(keywords["training"])
                if fixed and training is not None:
                    keywords["training"] = training
                outputs = node.layer(new_inputs, *args, **keywords)
                for old, new in zip(node.flat_outputs, tf.nest.flatten(outputs), strict=True):
                    values[id(old)] = new
        finally:
            CallContext.training = before
        return tf.nest.map_structure(lambda t: values[id(t)], self._nested_outputs)

    # -- Layers and configuration ---------------------------------------------------------------

    @property
    def layers(self) -> list[Layer]:
        """The layers, in order."""
        return list(self._ordered_layers or self._tracked_layers)

    def get_layer(self, name: str | None = None, index: int | None = None) -> Layer:
        """A layer by name or number.

        Raises:
          ValueError: There is none.
        """
        if index is not None:
            if index >= len(self.layers):
                raise ValueError(
                    f"Was asked to retrieve layer at index {index} but model only has "
                    f"{len(self.layers)} layers."
                )
            return self.layers[index]
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise ValueError(f"No such layer: {name}")

    @property
    def input_spec(self) -> Any:
        """None: the layers inside check their inputs."""
        return None

    @input_spec.setter
    def input_spec(self, value: Any) -> None:
        pass

    @property
    def stateful(self) -> bool:
        """Whether a layer inside is."""
        return any(layer.stateful for layer in self.layers)

    @stateful.setter
    def stateful(self, value: bool) -> None:
        pass

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The static shape of the outputs."""
        return tf.nest.map_structure(lambda o: o.shape, self._nested_outputs)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """None: each layer passes its mask on."""
        return None

    def _trackable_children(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Layers by number, and those with weights by number, as TensorFlow's checkpoints."""
        found: dict[str, Any] = {}
        with_weights = 0
        for number, layer in enumerate(self.layers):
            if layer.weights:
                found[f"layer_with_weights-{with_weights}"] = layer
                with_weights += 1
            found[f"layer-{number}"] = layer
        for name, value in super()._trackable_children().items():
            found.setdefault(name, value)
        return found

    def get_config(self) -> dict[str, Any]:
        """Layers, how they are connected, inputs and outputs.

        Raises:
          NotImplementedError: It is a subclass with a `call` of its own.
        """
        if not self._is_graph_network:
            raise NotImplementedError(
                f"{type(self).__name__} is a subclass with a `call` of its own: define get_config."
            )
        index: dict[int, list[Any]] = {}
        counts: dict[int, int] = {}
        for node in self._nodes:
            number = counts.get(id(node.layer), 0)
            counts[id(node.layer)] = number + 1
            for position, output in enumerate(node.flat_outputs):
                index[id(output)] = [node.layer.name, number, position]
        layers = []
        for layer in self.layers:
            calls = []
            for node in self._nodes:
                if node.layer is layer and not isinstance(layer, InputLayer):
                    plain = {
                        k: v for k, v in node.keywords.items() if not _has_tensor(v) and k != "mask"
                    }
                    calls.append([[*index[id(t)], plain] for t in tf.nest.flatten(node.inputs)])
            layers.append(
                {
                    "name": layer.name,
                    "class_name": serialization.get_registered_name(type(layer)),
                    "config": layer.get_config(),
                    "inbound_nodes": calls,
                }
            )
        return {
            "name": self.name,
            "layers": layers,
            "input_layers": [index[id(t)] for t in self.inputs],
            "output_layers": [index[id(t)] for t in self.outputs],
        }

    def summary(
        self, line_length: int | None = None, positions: Any = None, print_fn: Any = None
    ) -> None:
        """Prints layers, shapes and numbers of parameters."""
        write = print_fn or print
        width = line_length or 65
        write(f'Model: "{self.name}"')
        write("_" * width)
        write(f"{'Layer (type)':<29}{'Output Shape':<26}{'Param #':<10}")
        write("=" * width)
        for layer in self.layers:
            label = f"{layer.name} ({type(layer).__name__})"
            shape = "multiple"
            if len(layer.inbound_nodes) == 1:
                shape = str(layer.output_shape)
            write(f"{label[:28]:<29}{shape[:25]:<26}{layer.count_params():<10}")
        write("=" * width)
        total = sum(int(np.prod(v.shape.as_list())) for v in self.weights)
        trained = sum(int(np.prod(v.shape.as_list())) for v in self.trainable_weights)
        write(f"Total params: {total:,}")
        write(f"Trainable params: {trained:,}")
        write(f"Non-trainable params: {total - trained:,}")
        write("_" * width)

    # -- Weights in files ------------------------------------------------------------------------

    def save_weights(
        self, filepath: str, overwrite: bool = True, save_format: str | None = None
    ) -> None:
        """Saves the weights as a checkpoint of TensorFlow's.

        Raises:
          NotImplementedError: HDF5 is asked for.
        """
        if save_format == "h5" or (save_format is None and filepath.endswith((".h5", ".keras"))):
            raise NotImplementedError(
                "Weights are saved in TensorFlow's format only; leave out the ending .h5."
            )
        if not overwrite and tf.gfile.Exists(f"{filepath}.index"):
            raise FileExistsError(f"{filepath} exists, and overwrite is False.")
        tf.train.Checkpoint(**self._trackable_children()).write(
            filepath, session=state.get_session()
        )
        folder = filepath.rpartition("/")[0] or "."
        tf.train.update_checkpoint_state(folder, filepath)

    def load_weights(self, filepath: str, by_name: bool = False) -> Any:
        """Loads weights that `save_weights` saved.

        Raises:
          ValueError: Names are asked for, which such files do not have.
        """
        if by_name:
            raise ValueError("Weights may only be loaded based on topology into Models.")
        status = tf.train.Checkpoint(**self._trackable_children()).restore(filepath)
        status.run_restore_ops(state.get_session())
        return status


def network_from_config(
    cls: Any, config: dict[str, Any], custom_objects: Any, layer_classes: dict[str, Any]
) -> Any:
    """The functional network that `Network.get_config` described."""
    made: dict[str, Any] = {}
    outputs: dict[tuple[str, int], list[Any]] = {}
    for entry in config["layers"]:
        made[entry["name"]] = serialization.deserialize_keras_object(
            {"class_name": entry["class_name"], "config": entry["config"]},
            layer_classes,
            custom_objects,
            "layer",
        )
        if entry["class_name"] == "InputLayer":
            tensor = made[entry["name"]].inbound_nodes[0].outputs
            outputs[entry["name"], 0] = [tensor]
    waiting = [
        (entry["name"], number, call)
        for entry in config["layers"]
        for number, call in enumerate(entry["inbound_nodes"])
    ]
    while waiting:
        later = []
        for name, number, call in waiting:
            if any((source, node) not in outputs for source, node, *_ in call):
                later.append((name, number, call))
                continue
            inputs = [outputs[source, node][place] for source, node, place, *_ in call]
            keywords = call[0][3] if len(call[0]) > 3 else {}
            result = made[name](inputs[0] if len(inputs) == 1 else inputs, **keywords)
            outputs[name, number] = list(tf.nest.flatten(result))
        if len(later) == len(waiting):
            raise ValueError(f"Improper config format: {[n for n, _, _ in later]} form a circle.")
        waiting = later

    def tensors(places: Any) -> Any:
        found = [outputs[name, node][place] for name, node, place in places]
        return found[0] if len(found) == 1 else found

    return cls(
        inputs=tensors(config["input_layers"]),
        outputs=tensors(config["output_layers"]),
        name=config.get("name"),
    )


def _node_of(tensor: Any) -> Node:
    layer, node_index, _ = tensor._keras_history
    node: Node = layer.inbound_nodes[node_index]
    return node


def _has_tensor(value: Any) -> bool:
    return any(isinstance(each, tf.Tensor) for each in tf.nest.flatten(value))


def _dependent(tensor: Any) -> bool:
    return bool(operations_layer.dependent_ops(tensor))
