"""Replicated training: devices, synchronous rounds, leaving a job."""
