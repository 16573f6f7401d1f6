"""Seeing what a job does: its record, metrics of its tasks, and what is wrong with it."""
