"""Optimizers, their slots, learning rates, moving averages."""
