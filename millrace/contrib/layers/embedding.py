"""Embeddings of ids: of sequences, bags and sparse tensors."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.contrib.framework import model_variable


def embed_sequence(
    ids: Any,
    vocab_size: int | None = None,
    embed_dim: int | None = None,
    unique: bool = False,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    scope: Any = None,
    reuse: Any = None,
) -> Any:
    """[batch, length] of ids → [batch, length, embed_dim], by a variable ``embeddings``.

    Raises:
      ValueError: Sizes are missing, or differ from those of a variable that is reused.
    """
    if not (reuse or (vocab_size and embed_dim)):
        raise ValueError(
            "Must specify vocab size and embedding dimension when not reusing. Got vocab_size="
            f"{vocab_size} and embed_dim={embed_dim}"
        )
    with tf.variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
        shape = [vocab_size, embed_dim]
        if (reuse and vocab_size is None) or embed_dim is None:
            shape = None  # type: ignore[assignment]
        embeddings = model_variable(
            "embeddings",
            shape=shape,
            initializer=initializer,
            regularizer=regularizer,
            trainable=trainable,
        )
        if unique:
            return embedding_lookup_unique(embeddings, ids)
        return tf.nn.embedding_lookup(embeddings, ids)


def bow_encoder(
    ids: Any,
    vocab_size: int,
    embed_dim: int,
    sparse_lookup: bool = True,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    scope: Any = None,
    reuse: Any = None,
) -> Any:
    """The mean embedding of each document's ids."""
    with tf.variable_scope(scope, "bow_encoder", [ids], reuse=reuse):
        embeddings = model_variable(
            "embeddings",
            shape=[vocab_size, embed_dim],
            initializer=initializer,
            regularizer=regularizer,
            trainable=trainable,
        )
        if not sparse_lookup:
            if isinstance(ids, tf.SparseTensor):
                raise TypeError("ids are expected to be dense Tensor, got: %s", ids)
            return tf.reduce_mean(tf.nn.embedding_lookup(embeddings, ids), axis=1)
        if not isinstance(ids, tf.SparseTensor):
            ids = _dense_to_sparse(ids)
        return tf.nn.embedding_lookup_sparse(
            [embeddings], ids, None, combiner="mean", name="lookup"
        )


def _dense_to_sparse(ids: Any) -> Any:
    ids = tf.convert_to_tensor(ids)
    places = tf.where(tf.not_equal(ids, tf.constant(-1, ids.dtype)))
    return tf.SparseTensor(places, tf.gather_nd(ids, places), tf.shape(ids, out_type=tf.int64))


def embedding_lookup_unique(
    params: Any, ids: Any, partition_strategy: str = "mod", name: str | None = None
) -> Any:
    """`tf.nn.embedding_lookup` that fetches each id once."""
    with tf.name_scope(name, "EmbeddingLookupUnique", [params, ids]):
        ids = tf.convert_to_tensor(ids)
        flat = tf.reshape(ids, [-1])
        unique_ids, index = tf.unique(flat)
        unique_rows = tf.nn.embedding_lookup(params, unique_ids, partition_strategy)
        rows = tf.gather(unique_rows, index)
        shape = tf.concat([tf.shape(ids), tf.shape(unique_rows)[1:]], 0)
        result = tf.reshape(rows, shape)
        result.set_shape(ids.shape.concatenate(unique_rows.shape[1:]))
        return result


def scattered_embedding_lookup(
    params: Any, values: Any, dimension: int, name: str | None = None, hash_key: int | None = None
) -> Any:
    """An embedding each of whose numbers is at a hashed place of one flat variable."""
    with tf.name_scope(name, "scattered_embedding_lookup", [values]):
        values = tf.convert_to_tensor(values)
        flat = tf.reshape(values, [-1])
        size = int(params.shape.as_list()[0])
        text = flat if flat.dtype == tf.string else tf.as_string(flat)
        keyed = tf.strings.join(
            [
                tf.tile(tf.expand_dims(text, 1), [1, dimension]),
                tf.tile(tf.expand_dims(tf.as_string(tf.range(dimension)), 0), [tf.size(flat), 1]),
            ],
            separator="_X_",
        )
        places = tf.strings.to_hash_bucket_fast(keyed, size)
        rows = tf.nn.embedding_lookup(params, places)
        return tf.reshape(rows, tf.concat([tf.shape(values), [dimension]], 0))
