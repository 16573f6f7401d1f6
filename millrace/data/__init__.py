"""Data that programs train on: MNIST as shipped, TFRecord files and the Example messages in them.

The modules here work on files and arrays; they neither build graph nodes nor import jax.
"""
