"""`InputSpec`: what a layer accepts, and the check of it."""

from __future__ import annotations

from typing import Any

import millrace as tf


class InputSpec:
    """Type, shape, rank and sizes of axes that an input must have; None means any."""

    def __init__(
        self,
        dtype: Any = None,
        shape: Any = None,
        ndim: int | None = None,
        max_ndim: int | None = None,
        min_ndim: int | None = None,
        axes: dict[int, int | None] | None = None,
    ) -> None:
        self.dtype = None if dtype is None else tf.as_dtype(dtype).name
        if shape is not None:
            self.shape: Any = tf.TensorShape(shape)
            self.ndim = self.shape.ndims
        else:
            self.shape = None
            self.ndim = ndim
        self.max_ndim = max_ndim
        self.min_ndim = min_ndim
        self.axes = {int(k): axes[k] for k in axes} if axes else {}

    def __repr__(self) -> str:
        fields = {
            "dtype": self.dtype,
            "shape": self.shape,
            "ndim": self.ndim,
            "max_ndim": self.max_ndim,
            "min_ndim": self.min_ndim,
            "axes": self.axes or None,
        }
        shown = ", ".join(f"{k}={v}" for k, v in fields.items() if v is not None)
        return f"InputSpec({shown})"


def assert_input_compatibility(input_spec: Any, inputs: Any, layer_name: str) -> None:
    """Checks the inputs of a layer.

    Raises:
      ValueError: An input is not what the layer accepts; says which, and what was found.
    """
    if not input_spec:
        return
    flat = tf.nest.flatten(inputs)
    specs = tf.nest.flatten(input_spec)
    if len(flat) != len(specs):
        raise ValueError(
            f"Layer {layer_name} expects {len(specs)} inputs, but it received {len(flat)} input "
            f"tensors. Inputs received: {inputs}"
        )
    for index, (value, spec) in enumerate(zip(flat, specs, strict=True)):
        if spec is not None:
            _check(spec, value, index, layer_name)


def _check(spec: InputSpec, value: Any, index: int, layer_name: str) -> None:
    shape = tf.TensorShape(value.shape)
    said = f"Input {index} of layer {layer_name} is incompatible with the layer: "
    needs_rank = any(wanted is not None for wanted in (spec.ndim, spec.max_ndim, spec.min_ndim))
    if shape.ndims is None:
        if needs_rank or spec.axes:
            raise ValueError(said + "its rank is undefined, but the layer requires a defined rank.")
        return
    if spec.ndim is not None and shape.ndims != spec.ndim:
        raise ValueError(
            f"{said}expected ndim={spec.ndim}, found ndim={shape.ndims}. Full shape received: "
            f"{shape.as_list()}"
        )
    if spec.max_ndim is not None and shape.ndims > spec.max_ndim:
        raise ValueError(f"{said}expected max_ndim={spec.max_ndim}, found ndim={shape.ndims}")
    if spec.min_ndim is not None and shape.ndims < spec.min_ndim:
        raise ValueError(
            f"{said}: expected min_ndim={spec.min_ndim}, found ndim={shape.ndims}. Full shape "
            f"received: {shape.as_list()}"
        )
    if spec.dtype is not None and value.dtype.base_dtype.name != spec.dtype:
        raise ValueError(f"{said}expected dtype={spec.dtype}, found dtype={value.dtype}")
    sizes = shape.as_list()
    for axis, wanted in spec.axes.items():
        if wanted is not None and sizes[axis] not in (wanted, None):
            raise ValueError(
                f"{said}expected axis {axis} of input shape to have value {wanted} but received "
                f"input with shape {sizes}"
            )
    if spec.shape is not None:
        for wanted, found in zip(spec.shape.as_list(), sizes, strict=True):
            if wanted is not None and found is not None and wanted != found:
                raise ValueError(f"{said}expected shape={spec.shape}, found shape={sizes}")
