"""Cuts: the state of several tasks at one instant of all steps (decision 23).

Pure: events in, instructions out; no thread, clock or channel.
"""
