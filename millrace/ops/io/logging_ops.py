"""`tf.Print` and `tf.print`: values as text, for people.

Printing is a host op: it cuts the XLA program that the tensor comes from. `Print` passes its
input through; `PrintV2` is an operation without outputs.
"""

from __future__ import annotations

import itertools
import logging
import os
import pprint
import random
import sys
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from millrace.core import dtypes, nest, value_text
from millrace.graph.convert import is_tensor_like
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import like, none
from millrace.graph.slices import SparseTensor
from millrace.graph.tensor import Tensor
from millrace.ops.strings import conversion as string_conversion
from millrace.platform import file_access
from millrace.platform import logging as tf_logging

__all__ = ["Print", "print"]


@op(
    "Print(input: T, data: [U]) -> output: T where T: type; U: list(type) >= 0; "
    'message: string = ""; first_n: int = -1; summarize: int = 3',
    shape=like("input"),
    host=True,
    stateful=True,
)
def PrintOp(
    input: Any,
    data: list[Any],
    *,
    message: bytes,
    first_n: int,
    summarize: int,
    ctx: Any,
    node: Any,
) -> Any:
    """Writes the data to standard error and passes the input on."""
    if first_n < 0 or next(ctx.session.state_of(node, itertools.count)) < first_n:
        shown = "".join(f"[{value_text.summary(value, summarize)}]" for value in data)
        _write(sys.stderr, f"{message.decode()}{shown}\n")
    return input


@PrintOp.gradient
def _(op: Operation, grad: Tensor) -> Any:
    return [grad] + [None] * (len(op.inputs) - 1)


def _write(stream: Any, text: str) -> None:
    # One call a line: lines of concurrent steps do not mix.
    stream.write(text)
    stream.flush()


def Print(
    input_: Any,
    data: Sequence[Any],
    message: str | None = None,
    first_n: int | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> Tensor:
    """`input_`; when it is evaluated, `data` are written to standard error.

    Args:
      input_: Any tensor.
      data: Tensors to show.
      message: Text before them.
      first_n: Show them only that many times; always when None.
      summarize: How many entries of each tensor to show; 3 when None.
      name: A name for the operation.
    """
    return PrintOp(input_, data, message=message, first_n=first_n, summarize=summarize, name=name)


_LOGGERS = {
    b"log(info)": tf_logging.info,
    b"log(warning)": tf_logging.warning,
    b"log(error)": tf_logging.error,
}


@op(
    'PrintV2(input: string) where output_stream: string = "stderr"; end: string = "\n"',
    shape=none,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def PrintV2(input: Any, *, output_stream: bytes, end: bytes) -> None:
    """Writes a string to a stream, a log or the end of a file."""
    if input.ndim:
        sizes = ",".join(str(size) for size in input.shape)
        raise ValueError(f"Input is expected to be scalar, but got [{sizes}]")
    text = input[()] + end
    if output_stream.startswith(b"file://"):
        path = output_stream.removeprefix(b"file://")
        file_access.check("", os.fsdecode(path))
        with open(path, "ab") as file:
            file.write(text)
    elif output_stream in _LOGGERS:
        _LOGGERS[output_stream]("%s", input[()].decode(errors="replace"))
    elif output_stream in (b"stdout", b"stderr"):
        stream = sys.stdout if output_stream == b"stdout" else sys.stderr
        _write(stream, text.decode(errors="replace"))
    else:
        known = ", ".join(["stdout", "stderr", *(name.decode() for name in _LOGGERS)])
        raise ValueError(
            f"Unknown output stream: {output_stream.decode()}. Known are {known}, file://path."
        )


def print(*inputs: Any, **kwargs: Any) -> Operation:
    """An operation that prints its inputs when it is run.

    Args:
      *inputs: Tensors, Python values, and nested structures of both.
      **kwargs: ``output_stream`` (sys.stderr by default, sys.stdout, tf.logging.info, .warning
        or .error, or "file://" and a path), ``summarize`` (how many entries to show at both
        ends of each dimension, 3 by default, all when -1), ``sep``, ``end``, ``name``.
    """
    stream = kwargs.pop("output_stream", sys.stderr)
    name = kwargs.pop("name", None)
    summarize = kwargs.pop("summarize", 3)
    separator = kwargs.pop("sep", " ")
    end = kwargs.pop("end", os.linesep)
    if kwargs:
        raise ValueError(f"Unrecognized keyword arguments for tf.print: {kwargs}")
    target = _stream_name(stream)
    if len(inputs) == 1 and _is_text_scalar(inputs[0]):
        text = inputs[0]
    else:
        template, placeholder, tensors = _template(inputs, separator)
        text = string_conversion.string_format(
            template, tensors, placeholder, summarize, name=f"{name}_format" if name else None
        )
    result: Operation = PrintV2(text, output_stream=target, end=end, name=name)
    return result


def _is_text_scalar(value: Any) -> bool:
    return isinstance(value, Tensor) and value.shape.ndims == 0 and value.dtype == dtypes.string


def _stream_name(stream: Any) -> str:
    if isinstance(stream, str) and stream.startswith("file://"):
        return stream
    for known, name in (
        ((sys.stdout,), "stdout"),
        ((sys.stderr,), "stderr"),
        ((tf_logging.info, tf_logging.INFO, logging.info), "log(info)"),
        ((tf_logging.warning, tf_logging.warn, tf_logging.WARN, logging.warning), "log(warning)"),
        ((tf_logging.error, tf_logging.ERROR, logging.error), "log(error)"),
    ):
        if any(stream is each for each in known):
            return name
    raise ValueError(
        f"Unsupported output stream, logging level, or file.{stream}. Supported streams are "
        "sys.stdout, sys.stderr, tf.logging.info, tf.logging.warning, tf.logging.error. File "
        "needs to be in the form of 'file://<filepath>'."
    )


def _template(inputs: Sequence[Any], separator: str) -> tuple[str, str, list[Any]]:
    """What is printed with a placeholder for each tensor, the placeholder, and the tensors."""
    sorted_inputs = [
        OrderedDict(sorted(value.items())) if isinstance(value, OrderedDict) else value
        for value in inputs
    ]
    fixed = " ".join(
        pprint.pformat(nest.map_structure(lambda x: "" if _is_value(x) else x, value))
        for value in sorted_inputs
    )
    placeholder = _placeholder_not_in(fixed)
    tensors: list[Any] = []
    texts: list[str] = []
    for value in inputs:
        if isinstance(value, str):
            texts.append(value)
            continue
        leaves: list[Any] = []
        for leaf in nest.flatten(value):
            if isinstance(leaf, SparseTensor):
                tensors += [leaf.indices, leaf.values, leaf.dense_shape]
                leaves.append(
                    f"SparseTensor(indices={placeholder}, values={placeholder}, "
                    f"shape={placeholder})"
                )
            elif _is_value(leaf):
                tensors.append(leaf)
                leaves.append(placeholder)
            else:
                leaves.append(leaf)
        texts.append(pprint.pformat(nest.pack_sequence_as(value, leaves)))
    template = separator.join(texts).replace(f"'{placeholder}'", placeholder)
    return template, placeholder, tensors


def _is_value(leaf: Any) -> bool:
    return isinstance(leaf, SparseTensor) or is_tensor_like(leaf)


def _placeholder_not_in(text: str) -> str:
    # Digits are appended in a fixed order: the same program builds the same graph.
    digits = random.Random(5)
    placeholder = "{}"
    while placeholder in text:
        placeholder += str(digits.randint(0, 9))
    return placeholder
