"""The rules of one step over several tasks: events in, instructions out.

Nothing here has a thread, a clock, a socket or a random number: they are arguments.
"""
