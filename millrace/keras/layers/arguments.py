"""Arguments of convolutions and pools: sizes as tuples, paddings, layouts, lengths of outputs."""

from __future__ import annotations

from typing import Any

from millrace.keras.engine import state


def normalize_tuple(value: Any, n: int, name: str) -> tuple[int, ...]:
    """`n` whole numbers, from one or from `n` of them.

    Raises:
      ValueError: There are others, or another number of them.
    """
    if isinstance(value, int):
        return (value,) * n
    try:
        found = tuple(value)
    except TypeError:
        raise ValueError(
            f"The `{name}` argument must be a tuple of {n} integers. Received: {value}"
        ) from None
    if len(found) != n:
        raise ValueError(
            f"The `{name}` argument must be a tuple of {n} integers. Received: {value}"
        )
    for each in found:
        try:
            int(each)
        except (ValueError, TypeError):
            raise ValueError(
                f"The `{name}` argument must be a tuple of {n} integers. Received: {value} "
                f"including element {each} of type {type(each)}"
            ) from None
    return tuple(int(each) for each in found)


def normalize_data_format(value: str | None) -> str:
    """``channels_first`` or ``channels_last``.

    Raises:
      ValueError: It is neither.
    """
    chosen = (value or state.image_data_format()).lower()
    if chosen not in ("channels_first", "channels_last"):
        raise ValueError(
            'The `data_format` argument must be one of "channels_first", "channels_last". '
            f"Received: {value}"
        )
    return chosen


def normalize_padding(value: str) -> str:
    """``valid``, ``same`` or ``causal``, in lower case.

    Raises:
      ValueError: It is none of these.
    """
    chosen = value.lower()
    if chosen not in ("valid", "same", "causal"):
        raise ValueError(
            'The `padding` argument must be a list/tuple or one of "valid", "same" (or "causal", '
            f"only for `Conv1D). Received: {value}"
        )
    return chosen


def tf_data_format(data_format: str, rank: int) -> str:
    """TensorFlow's name of a layout with `rank` dimensions, batch and channels among them."""
    if data_format == "channels_last":
        return {3: "NWC", 4: "NHWC", 5: "NDHWC"}[rank]
    return {3: "NCW", 4: "NCHW", 5: "NCDHW"}[rank]


def conv_output_length(
    length: int | None, size: int, padding: str, stride: int, dilation: int = 1
) -> int | None:
    """How long the output of a convolution or pool is."""
    if length is None:
        return None
    dilated = size + (size - 1) * (dilation - 1)
    if padding in ("same", "causal"):
        out = length
    else:
        out = length - dilated + 1
    return (out + stride - 1) // stride


def deconv_output_length(
    length: Any, size: int, padding: str, output_padding: int | None = None, stride: int = 1
) -> Any:
    """How long the output of a transposed convolution is; a tensor for a tensor."""
    if length is None:
        return None
    if output_padding is None:
        if padding == "valid":
            return length * stride + max(size - stride, 0)
        return length * stride
    pad = size // 2 if padding == "same" else 0
    return (length - 1) * stride + size - 2 * pad + output_padding
