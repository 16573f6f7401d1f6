"""State machines without threads, clocks or sockets: events go in, results come out.

Whoever drives one brings the lock, the time and the random numbers.
"""
