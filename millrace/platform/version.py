"""The version of Millrace, stated once: pyproject.toml reads it here without importing anything."""

__version__ = "0.1.0"
