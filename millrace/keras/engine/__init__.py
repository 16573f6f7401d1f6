"""The engine of Keras: layers, the calls that connect them, models."""
