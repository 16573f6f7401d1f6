"""What programs take from TensorFlow's python.layers.utils that has no public name."""

from collections.abc import Callable
from typing import Any

from millrace.graph.constant_value import constant_value as _static_value
from millrace.graph.tensor import Tensor
from millrace.ops.control_flow.control_flow import cond


def constant_value(pred: Any) -> Any:
    """What is known of a condition while the graph is built: a bool, or None."""
    if isinstance(pred, Tensor):
        return _static_value(pred)
    return pred if isinstance(pred, bool) else bool(pred)


def smart_cond(
    pred: Any,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    name: str | None = None,
) -> Any:
    """Calls one of two functions if the condition is known, else builds a conditional."""
    known = constant_value(pred)
    if known is None:
        return cond(pred, true_fn=true_fn, false_fn=false_fn, name=name)
    chosen = true_fn if known else false_fn
    if chosen is None:
        raise TypeError("true_fn and false_fn must be callable.")
    return chosen()


def convert_data_format(data_format: str, ndim: int) -> str:
    """``NHWC`` for ``channels_last`` and four dimensions, and so on.

    Raises:
      ValueError: There is no such format.
    """
    places = {3: "W", 4: "HW", 5: "DHW"}
    if data_format not in ("channels_first", "channels_last"):
        raise ValueError(f"Invalid data_format: {data_format}")
    if ndim not in places:
        raise ValueError(f"Input rank not supported: {ndim}")
    return f"N{places[ndim]}C" if data_format == "channels_last" else f"NC{places[ndim]}"


def normalize_tuple(value: Any, n: int, name: str) -> tuple[int, ...]:
    """`n` whole numbers, of one or of as many.

    Raises:
      ValueError: They are something else.
    """
    if isinstance(value, int):
        return (value,) * n
    words = f"The `{name}` argument must be a tuple of {n} integers. Received: {value}"
    try:
        found = tuple(int(each) for each in value)
    except (TypeError, ValueError):
        raise ValueError(words) from None
    if len(found) != n:
        raise ValueError(words)
    return found


def normalize_data_format(value: str) -> str:
    """``channels_first`` or ``channels_last``, in small letters.

    Raises:
      ValueError: It is neither.
    """
    return _one_of("data_format", value, ("channels_first", "channels_last"))


def normalize_padding(value: str) -> str:
    """``valid`` or ``same``, in small letters.

    Raises:
      ValueError: It is neither.
    """
    return _one_of("padding", value, ("valid", "same"))


def _one_of(name: str, value: str, allowed: tuple[str, str]) -> str:
    found = value.lower()
    if found not in allowed:
        words = " ".join(f'"{each}"' for each in allowed)
        raise ValueError(f"The `{name}` argument must be one of {words}. Received: {value}")
    return found


def conv_output_length(
    input_length: int | None, filter_size: int, padding: str, stride: int, dilation: int = 1
) -> int | None:
    """How long the output of a convolution is, ``same``, ``valid`` or ``full``."""
    if input_length is None:
        return None
    window = filter_size + (filter_size - 1) * (dilation - 1)
    reach = {"same": 0, "valid": 1 - window, "full": window - 1}
    return (input_length + reach[padding] + stride - 1) // stride


def conv_input_length(
    output_length: int | None, filter_size: int, padding: str, stride: int
) -> int | None:
    """How long the input of a convolution was, by its output."""
    if output_length is None:
        return None
    pad = {"same": filter_size // 2, "valid": 0, "full": filter_size - 1}[padding]
    return (output_length - 1) * stride - 2 * pad + filter_size


def deconv_output_length(
    input_length: int | None, filter_size: int, padding: str, stride: int
) -> int | None:
    """How long the output of a transposed convolution is."""
    if input_length is None:
        return None
    more = {"same": 0, "valid": max(filter_size - stride, 0), "full": -(stride + filter_size - 2)}
    return input_length * stride + more[padding]
