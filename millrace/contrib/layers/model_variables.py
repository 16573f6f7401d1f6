"""How contrib's layers name and collect the variables of `tf.layers`' classes.

A variable scope with `variable_getter` makes model variables and renames them: ``kernel`` is
``weights`` here, ``bias`` is ``biases``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import millrace as tf
from millrace.contrib.framework import variables
from millrace.contrib.layers import utils

KERNEL_AND_BIAS = {"bias": "biases", "kernel": "weights"}


def variable_getter(rename: dict[str, str] | None = None) -> Callable[..., Any]:
    """A custom getter that makes model variables, called as `rename` says."""
    return functools.partial(_model_variable, rename=rename or {})


def _model_variable(
    getter: Any,
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    collections: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    rename: Any = None,
    use_resource: bool | None = None,
    synchronization: Any = tf.VariableSynchronization.AUTO,
    aggregation: Any = tf.VariableAggregation.NONE,
    **_: Any,
) -> Any:
    scope, short = name.rpartition("/")[::2]
    if short in rename:
        name = f"{scope}/{rename[short]}" if scope else rename[short]
    return variables.model_variable(
        name,
        shape=shape,
        dtype=dtype,
        initializer=initializer,
        regularizer=regularizer,
        collections=collections,
        trainable=trainable,
        caching_device=caching_device,
        partitioner=partitioner,
        custom_getter=getter,
        use_resource=use_resource,
    )


def collect(variable: Any, collections_set: Any, name: str) -> None:
    """Adds a variable, or its parts, to the collections that `name`'s variables go to."""
    collections = utils.get_variable_collections(collections_set, name) or []
    parts = getattr(variable, "_get_variable_list", None)
    for part in [variable] if parts is None else parts():
        for collection in collections if isinstance(collections, list | tuple) else [collections]:
            present = tf.get_default_graph().get_collection_ref(collection)
            if not any(part is known for known in present):
                present.append(part)
