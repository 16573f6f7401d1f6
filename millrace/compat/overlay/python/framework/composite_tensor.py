"""What programs take from TensorFlow's python.framework.composite_tensor."""

from __future__ import annotations

import abc

import millrace as tf


class CompositeTensor(abc.ABC):
    """A value of several tensors: a base for those of libraries, and for ``isinstance``."""

    @property
    @abc.abstractmethod
    def _type_spec(self) -> tf.TypeSpec:
        """The description of the value."""


for _kind in (tf.SparseTensor, tf.IndexedSlices, tf.RaggedTensor):
    CompositeTensor.register(_kind)
