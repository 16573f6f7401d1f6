"""Input pipelines as they run: datasets that describe, and iterators that are pulled.

Plain Python and NumPy. A dataset here is a value without state; its iterator is pulled by the one
below it, and ends with `EndOfSequence`. Functions of the user come as callables: nothing here knows
graphs, sessions or JAX. Threads are made by `workers` only.
"""
