"""Savers, checkpoints, and starting from one."""
