"""What libraries take from TensorFlow's python.framework.type_spec that has no public name."""

from __future__ import annotations

import abc

import millrace as tf


class BatchableTypeSpec(tf.TypeSpec, abc.ABC):
    """A description of values that datasets can batch, for libraries to derive from."""

    @abc.abstractmethod
    def _batch(self, batch_size: int | None) -> tf.TypeSpec:
        """The description of a batch of such values."""

    @abc.abstractmethod
    def _unbatch(self) -> tf.TypeSpec:
        """The description of an element of such a batch."""
