"""Example messages to tensors."""
