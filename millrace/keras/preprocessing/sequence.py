"""`tf.keras.preprocessing.sequence`."""

from __future__ import annotations

from typing import Any

import numpy as np


def pad_sequences(
    sequences: Any,
    maxlen: int | None = None,
    dtype: Any = "int32",
    padding: str = "pre",
    truncating: str = "pre",
    value: Any = 0.0,
) -> Any:
    """Sequences of one length, as an array; `padding` and `truncating` are ``pre`` or ``post``.

    Raises:
      ValueError: They are something else.
    """
    for name, given in (("padding", padding), ("truncating", truncating)):
        if given not in ("pre", "post"):
            raise ValueError(f'{name.capitalize()} type "{given}" not understood')
    lengths = [len(s) for s in sequences]
    length = max(lengths, default=0) if maxlen is None else maxlen
    tail = next((np.asarray(s).shape[1:] for s in sequences if len(s)), ())
    result = np.full((len(lengths), length, *tail), value, dtype=dtype)
    for i, sequence in enumerate(sequences):
        if not len(sequence) or not length:
            continue
        kept = (
            np.asarray(sequence)[-length:] if truncating == "pre" else np.asarray(sequence)[:length]
        )
        if padding == "post":
            result[i, : len(kept)] = kept
        else:
            result[i, -len(kept) :] = kept
    return result
