"""How much one message of TensorFlow's wire can hold, and the error when it is not enough.

Between tasks of Millrace there is no such limit: their messages are not protocol buffers.
"""

from __future__ import annotations

from collections.abc import Iterable

from millrace.core import errors

#: Protocol buffers, and so gRPC's messages, end here. A little is left for names and shapes.
MAX_BYTES = (1 << 31) - (1 << 20)


def check_fits(values: Iterable[object], what: str, instead: str) -> None:
    """Refuses values that cannot go in one message.

    Args:
      values: Arrays; what is none counts nothing.
      what: What they are, in words.
      instead: What to do instead, a sentence.

    Raises:
      InvalidArgumentError: They are too large together.
    """
    size = sum(int(getattr(value, "nbytes", 0)) for value in values)
    if size > MAX_BYTES:
        raise errors.InvalidArgumentError(
            None,
            None,
            f"{what} have {size} bytes, but one message between a client and a server in another "
            f"process holds no more than 2 GiB (protocol buffers' limit, and TensorFlow's). "
            f"{instead}",
        )
