"""What graph programs take from TensorFlow's python.eager.tape: nothing is ever recorded."""

import contextlib
from typing import Any


def stop_recording() -> contextlib.AbstractContextManager[None]:
    """Nothing is recorded inside, as outside."""
    return contextlib.nullcontext()


def could_possibly_record() -> bool:
    """False: graphs need no record."""
    return False


def should_record(tensors: Any) -> bool:
    """False: graphs need no record."""
    return False


def record_operation(
    op_type: str, output_tensors: Any, input_tensors: Any, backward_function: Any, *_: Any
) -> None:
    """Nothing: graphs need no record."""
