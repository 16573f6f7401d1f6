"""Layers around a layer: over time, and in both directions."""

from __future__ import annotations

import copy
from typing import Any

import millrace as tf
from millrace.keras import serialization
from millrace.keras.engine.base_layer import Layer
from millrace.keras.engine.training import layer_classes


class Wrapper(Layer):
    """A layer that has another inside."""

    def __init__(self, layer: Any, **kwargs: Any) -> None:
        if not isinstance(layer, Layer):
            raise ValueError(f"Layer {layer} supplied to wrapper is not a Layer.")
        super().__init__(**kwargs)
        self.layer = layer

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        inner = {
            "class_name": serialization.get_registered_name(type(self.layer)),
            "config": self.layer.get_config(),
        }
        return {**super().get_config(), "layer": inner}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The wrapper that `get_config` described."""
        config = dict(config)
        layer = serialization.deserialize_keras_object(
            config.pop("layer"), layer_classes(), custom_objects, "layer"
        )
        return cls(layer, **config)


class TimeDistributed(Wrapper):
    """Applies a layer to every time step."""

    def __init__(self, layer: Any, **kwargs: Any) -> None:
        super().__init__(layer, **kwargs)
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        """Builds the layer inside for one time step, in this layer's scope."""
        sizes = tf.TensorShape(input_shape).as_list()
        if not self.layer.built:
            self.layer._dtype = self.layer._dtype or self.dtype
            self.layer.build(tf.TensorShape([sizes[0], *sizes[2:]]))
            self.layer.built = True
        self.built = True

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        """All time steps as one batch."""
        static = inputs.shape.as_list()
        shape = tf.shape(inputs)
        flat = tf.reshape(inputs, tf.concat([[-1], shape[2:]], 0))
        flat.set_shape([None, *static[2:]])
        options = {"training": training} if self.layer._takes("training") else {}
        output = self.layer(flat, **options)
        result = tf.reshape(output, tf.concat([shape[:2], tf.shape(output)[1:]], 0))
        result.set_shape([*static[:2], *output.shape.as_list()[1:]])
        return result


class Bidirectional(Wrapper):
    """A recurrent layer forwards and backwards; `merge_mode` says how they are joined."""

    def __init__(
        self,
        layer: Any,
        merge_mode: str | None = "concat",
        weights: Any = None,
        backward_layer: Any = None,
        **kwargs: Any,
    ) -> None:
        if merge_mode not in ("sum", "mul", "ave", "concat", None):
            raise ValueError(
                'Invalid merge mode. Merge mode should be one of {"sum", "mul", "ave", "concat", '
                "None}"
            )
        super().__init__(layer, **kwargs)
        self.merge_mode = merge_mode
        self.forward_layer = self._twin(layer, False)
        self.backward_layer = self._twin(layer, True) if backward_layer is None else backward_layer
        self._tracked_layers = [self.forward_layer, self.backward_layer]
        self.return_sequences = layer.return_sequences
        self.return_state = layer.return_state
        self.supports_masking = True

    @staticmethod
    def _twin(layer: Any, backwards: bool) -> Any:
        config = copy.deepcopy(layer.get_config())
        prefix = "backward" if backwards else "forward"
        config["name"] = f"{prefix}_{layer.name}"
        if backwards:
            config["go_backwards"] = not config["go_backwards"]
        return type(layer).from_config(config)

    def call(
        self, inputs: Any, training: Any = None, mask: Any = None, initial_state: Any = None
    ) -> Any:
        """Both directions, joined."""
        forward_state = backward_state = None
        if initial_state is not None:
            half = len(initial_state) // 2
            forward_state, backward_state = initial_state[:half], initial_state[half:]
        options = {"training": training, "mask": mask}
        y = self.forward_layer(inputs, initial_state=forward_state, **options)
        z = self.backward_layer(inputs, initial_state=backward_state, **options)
        states: list[Any] = []
        if self.return_state:
            states = [*y[1:], *z[1:]]
            y, z = y[0], z[0]
        if self.return_sequences:
            z = tf.reverse(z, [1])
        ways: dict[Any, Any] = {
            "concat": lambda: tf.concat([y, z], axis=-1),
            "sum": lambda: y + z,
            "ave": lambda: (y + z) / 2,
            "mul": lambda: y * z,
            None: lambda: [y, z],
        }
        joined = ways[self.merge_mode]()
        if states:
            return [*joined, *states] if isinstance(joined, list) else [joined, *states]
        return joined

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """The mask, if all outputs are returned."""
        mask = mask[0] if isinstance(mask, list) else mask
        return mask if self.return_sequences and not self.return_state else None

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {**super().get_config(), "merge_mode": self.merge_mode}
