"""`tf.keras.datasets.mnist`: the digits that come with Millrace."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.data.mnist import read_data_sets


def load_data(path: str = "mnist.npz") -> Any:
    """((images, labels) of training, (images, labels) of test); images of uint8."""
    data = read_data_sets(path.removesuffix(".npz"), reshape=False, validation_size=0)

    def arrays(part: Any) -> Any:
        images = np.asarray(part.images)[..., 0]
        if images.dtype != np.uint8:
            images = np.round(images * 255).astype(np.uint8)
        return images, np.asarray(part.labels).astype(np.uint8)

    return arrays(data.train), arrays(data.test)
