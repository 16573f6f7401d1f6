"""Conditionals, loops and what they carry; assertions."""
