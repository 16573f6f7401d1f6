"""State machines without threads, clocks or sockets: events go in, results come out.

The driver of one brings the lock, the time and the random numbers.
"""
