"""Ops of `tf.data`: datasets as variants, iterators as resources, and the classes around them."""
