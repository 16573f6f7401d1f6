"""Strings: text, numbers as text, Unicode, hashes."""
