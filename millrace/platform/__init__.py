"""What TensorFlow 1 calls the platform: files, logging, command-line flags, the program's start.

Stands just above `core`, so that every other folder may use it. Knows nothing of graphs.
"""
