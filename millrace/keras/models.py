"""`tf.keras.models`: models, and what makes them again from a configuration."""

from __future__ import annotations

import json
from typing import Any

from millrace.keras import serialization
from millrace.keras.engine.network import Network
from millrace.keras.engine.sequential import Sequential
from millrace.keras.engine.training import Model, layer_classes

__all__ = ["Model", "Network", "Sequential", "clone_model", "model_from_config", "model_from_json"]


def model_from_config(config: Any, custom_objects: Any = None) -> Any:
    """The model that ``{"class_name", "config"}`` describes."""
    return serialization.deserialize_keras_object(
        config,
        {**layer_classes(), "Model": Model, "Sequential": Sequential},
        custom_objects,
        "model",
    )


def model_from_json(json_string: str, custom_objects: Any = None) -> Any:
    """The model that `Model.to_json` described."""
    return model_from_config(json.loads(json_string), custom_objects)


def clone_model(model: Any, input_tensors: Any = None) -> Any:
    """A model of the same layers, with variables of its own."""
    clone = type(model).from_config(model.get_config())
    if input_tensors is not None:
        clone(input_tensors)
    return clone
