"""A task and its standby: who is primary, what waits for whom, who takes over; no I/O here.

`view.py` is what both agree on, `primary.py` and `standby.py` the two state machines.
"""
