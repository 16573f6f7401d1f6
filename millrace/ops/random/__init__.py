"""Random numbers: the generator, and the ops that draw from it."""
