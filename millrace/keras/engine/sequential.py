"""`Sequential`: layers one after the other."""

from __future__ import annotations

from typing import Any

from millrace.keras import serialization
from millrace.keras.engine.base_layer import Layer
from millrace.keras.engine.input_layer import Input, InputLayer
from millrace.keras.engine.training import Model, layer_classes


class Sequential(Model):
    """A stack of layers; built when the shape of the input is known."""

    def __init__(self, layers: Any = None, name: str | None = None) -> None:
        super().__init__(name=name)
        self._stack: list[Layer] = []
        for layer in layers or []:
            self.add(layer)

    @property
    def layers(self) -> list[Layer]:
        """The layers, without an input layer."""
        return [layer for layer in self._stack if not isinstance(layer, InputLayer)]

    def add(self, layer: Any) -> None:
        """Puts a layer on top.

        Raises:
          TypeError: It is no layer.
        """
        if not isinstance(layer, Layer):
            raise TypeError(f"The added layer must be an instance of class Layer. Found: {layer}")
        self._stack.append(layer)
        self._tracked_layers = list(self._stack)
        if self.outputs is not None:
            self._connect_all(self.inputs[0])
            return
        if isinstance(layer, InputLayer):
            self._connect_all(layer.inbound_nodes[0].outputs)
        elif len(self._stack) == 1:
            shape = getattr(layer, "_batch_input_shape", None)
            if shape is None and isinstance(layer, Model) and layer.inputs:
                shape = tuple(layer.inputs[0].shape.as_list())
            if shape is not None:
                self._connect_all(
                    Input(batch_shape=shape, dtype=layer.dtype, name=f"{layer.name}_input")
                )

    def pop(self) -> None:
        """Takes the last layer off.

        Raises:
          TypeError: There is none.
        """
        if not self._stack:
            raise TypeError("There are no layers in the model.")
        self._stack.pop()
        self._tracked_layers = list(self._stack)
        if self.inputs is not None and self._stack:
            self._connect_all(self.inputs[0])

    def _connect_all(self, value: Any) -> None:
        first = value
        for layer in self.layers:
            known = [n for n in layer.inbound_nodes if n.inputs is value]
            value = known[0].outputs if known else layer(value)
        self._init_graph_network(first, value)
        self._tracked_layers = list(self._stack)

    def build(self, input_shape: Any = None) -> None:
        """Builds the layers for a shape, with the batch."""
        if not self.built and input_shape is not None:
            self._connect_all(Input(batch_shape=tuple(input_shape)))
        self.built = True

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        """The layers, one after the other."""
        if self._is_graph_network:
            return super().call(inputs, training=training)
        value = inputs
        for layer in self.layers:
            options = {"training": training} if layer._takes("training") else {}
            value = layer(value, **options)
        return value

    def predict_classes(self, x: Any, batch_size: int = 32, verbose: int = 0) -> Any:
        """The likeliest class of each example."""
        values = self.predict(x, batch_size=batch_size)
        if values.shape[-1] > 1:
            return values.argmax(axis=-1)
        return (values > 0.5).astype("int32")

    def predict_proba(self, x: Any, batch_size: int = 32, verbose: int = 0) -> Any:
        """The outputs."""
        return self.predict(x, batch_size=batch_size)

    def get_config(self) -> dict[str, Any]:
        """The layers' configurations."""
        layers = [
            {
                "class_name": serialization.get_registered_name(type(layer)),
                "config": layer.get_config(),
            }
            for layer in self.layers
        ]
        config: dict[str, Any] = {"name": self.name, "layers": layers}
        if self.inputs is not None:
            config["build_input_shape"] = tuple(self.inputs[0].shape.as_list())
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The model that `get_config` described."""
        model = cls(name=config.get("name"))
        for entry in config["layers"]:
            model.add(
                serialization.deserialize_keras_object(
                    entry, layer_classes(), custom_objects, "layer"
                )
            )
        if model.inputs is None and config.get("build_input_shape"):
            model.build(config["build_input_shape"])
        return model
