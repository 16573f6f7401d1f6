"""Helpers: what a decoder's next input is, and when a sequence ends."""

from __future__ import annotations

from typing import Any

import millrace as tf


class Helper:
    """`initialize`, `sample`, `next_inputs`: what decoders ask for."""

    @property
    def batch_size(self) -> Any:
        """The size of the batch, as a tensor."""
        raise NotImplementedError("batch_size has not been implemented")

    @property
    def sample_ids_shape(self) -> Any:
        """The shape of one example's sample."""
        return tf.TensorShape([])

    @property
    def sample_ids_dtype(self) -> Any:
        """The type of samples."""
        return tf.int32

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        """(finished, first inputs)."""
        raise NotImplementedError

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """Ids for the outputs."""
        return tf.cast(tf.argmax(outputs, axis=-1), tf.int32)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        """(finished, next inputs, next state)."""
        raise NotImplementedError


class CustomHelper(Helper):
    """Three functions as a helper."""

    def __init__(
        self, initialize_fn: Any, sample_fn: Any, next_inputs_fn: Any, sample_ids_shape: Any = None,
        sample_ids_dtype: Any = None,
    ) -> None:  # fmt: skip
        self._initialize_fn, self._sample_fn = initialize_fn, sample_fn
        self._next_inputs_fn = next_inputs_fn
        self._shape = tf.TensorShape(sample_ids_shape or [])
        self._dtype = sample_ids_dtype or tf.int32
        self._batch: Any = None

    @property
    def batch_size(self) -> Any:
        """The size of the batch, as a tensor."""
        if self._batch is None:
            raise ValueError("batch_size accessed before initialize was called")
        return self._batch

    @property
    def sample_ids_shape(self) -> Any:
        """The shape of one example's sample."""
        return self._shape

    @property
    def sample_ids_dtype(self) -> Any:
        """The type of samples."""
        return self._dtype

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        """(finished, first inputs)."""
        finished, inputs = self._initialize_fn()
        if self._batch is None:
            self._batch = tf.size(finished)
        return finished, inputs

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """The function's."""
        return self._sample_fn(time=time, outputs=outputs, state=state)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        """The function's."""
        finished, inputs, state = self._next_inputs_fn(
            time=time, outputs=outputs, state=state, sample_ids=sample_ids
        )
        return finished, inputs, state


class TrainingHelper(Helper):
    """Reads the inputs of training, whatever the decoder says."""

    def __init__(
        self, inputs: Any, sequence_length: Any, time_major: bool = False, name: str | None = None
    ) -> None:
        with tf.name_scope(name, "TrainingHelper", [sequence_length]):
            self._inputs = inputs = tf.nest.map_structure(tf.convert_to_tensor, inputs)
            if not time_major:
                inputs = tf.nest.map_structure(_swap, inputs)
            self._arrays = tf.nest.map_structure(
                lambda x: tf.TensorArray(
                    x.dtype, size=tf.shape(x)[0], element_shape=x.shape[1:]
                ).unstack(x),
                inputs,
            )
            self._sequence_length = tf.convert_to_tensor(sequence_length, name="sequence_length")
            if self._sequence_length.shape.ndims != 1:
                raise ValueError(
                    f"Expected sequence_length to be a vector, but received shape: "
                    f"{self._sequence_length.shape}"
                )
            self._zeros = tf.nest.map_structure(lambda x: tf.zeros_like(x[0]), inputs)
            self._batch = tf.size(self._sequence_length)

    @property
    def inputs(self) -> Any:
        """The inputs."""
        return self._inputs

    @property
    def sequence_length(self) -> Any:
        """The lengths."""
        return self._sequence_length

    @property
    def batch_size(self) -> Any:
        """The size of the batch, as a tensor."""
        return self._batch

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        """The first inputs; sequences of length 0 are finished."""
        finished = tf.equal(0, self._sequence_length)
        first = tf.cond(
            tf.reduce_all(finished), lambda: self._zeros,
            lambda: tf.nest.map_structure(lambda a: a.read(0), self._arrays),
        )  # fmt: skip
        return finished, _shaped(first, self._zeros)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any = None, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        """The next inputs."""
        following = time + 1
        finished = following >= self._sequence_length
        inputs = tf.cond(
            tf.reduce_all(finished), lambda: self._zeros,
            lambda: tf.nest.map_structure(lambda a: a.read(following), self._arrays),
        )  # fmt: skip
        return finished, _shaped(inputs, self._zeros), state


class ScheduledEmbeddingTrainingHelper(TrainingHelper):
    """Now and then feeds a sample instead of the truth (Bengio et al., 2015)."""

    def __init__(
        self, inputs: Any, sequence_length: Any, embedding: Any, sampling_probability: Any,
        time_major: bool = False, seed: int | None = None, scheduling_seed: int | None = None,
        name: str | None = None,
    ) -> None:  # fmt: skip
        self._embedding_fn = _embedding(embedding)
        self._probability = tf.convert_to_tensor(sampling_probability)
        self._seed, self._scheduling_seed = seed, scheduling_seed
        super().__init__(inputs, sequence_length, time_major, name)

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """A sample, or −1 where the truth is fed."""
        chosen = tf.random_uniform([self._batch], seed=self._scheduling_seed) < self._probability
        ids = tf.cast(tf.squeeze(tf.multinomial(outputs, 1, seed=self._seed), [1]), tf.int32)
        return tf.where(chosen, ids, tf.fill([self._batch], -1))

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any = None, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        """The truth, or the embedding of the sample."""
        finished, truth, state = super().next_inputs(time, outputs, state)
        sampled = self._embedding_fn(tf.maximum(sample_ids, 0))
        keep = tf.expand_dims(sample_ids >= 0, -1)
        mixed = tf.where(tf.logical_and(keep, tf.ones_like(truth, dtype=tf.bool)), sampled, truth)
        return finished, _shaped(mixed, truth), state


class GreedyEmbeddingHelper(Helper):
    """Feeds the embedding of the likeliest id, until the end token."""

    def __init__(self, embedding: Any, start_tokens: Any, end_token: Any) -> None:
        self._embedding_fn = _embedding(embedding)
        self._start_tokens = tf.convert_to_tensor(start_tokens, dtype=tf.int32, name="start_tokens")
        self._end_token = tf.convert_to_tensor(end_token, dtype=tf.int32, name="end_token")
        if self._start_tokens.shape.ndims != 1:
            raise ValueError("start_tokens must be a vector")
        if self._end_token.shape.ndims != 0:
            raise ValueError("end_token must be a scalar")
        self._batch = tf.size(start_tokens)
        self._start_inputs = self._embedding_fn(self._start_tokens)

    @property
    def batch_size(self) -> Any:
        """The size of the batch, as a tensor."""
        return self._batch

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        """The embedding of the start tokens."""
        return tf.tile([False], [self._batch]), self._start_inputs

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        """The embedding of the ids; the start's when all have ended."""
        finished = tf.equal(sample_ids, self._end_token)
        inputs = tf.cond(
            tf.reduce_all(finished), lambda: tf.identity(self._start_inputs),
            lambda: self._embedding_fn(sample_ids),
        )  # fmt: skip
        return finished, _shaped(inputs, self._start_inputs), state


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """Feeds the embedding of a sampled id."""

    def __init__(
        self, embedding: Any, start_tokens: Any, end_token: Any,
        softmax_temperature: Any = None, seed: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(embedding, start_tokens, end_token)
        self._temperature, self._seed = softmax_temperature, seed

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """A sample of the distribution."""
        logits = outputs if self._temperature is None else outputs / self._temperature
        return tf.cast(tf.squeeze(tf.multinomial(logits, 1, seed=self._seed), [1]), tf.int32)


def _embedding(embedding: Any) -> Any:
    if callable(embedding) and not isinstance(embedding, tf.Tensor | tf.Variable):
        return embedding
    return lambda ids: tf.nn.embedding_lookup(embedding, ids)


def _swap(x: Any) -> Any:
    return tf.transpose(x, [1, 0, *range(2, x.shape.ndims)])


def _shaped(values: Any, like: Any) -> Any:
    def shaped(value: Any, other: Any) -> Any:
        value.set_shape(other.shape)
        return value

    return tf.nest.map_structure(shaped, values, like)
