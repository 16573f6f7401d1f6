"""Hooks that know Estimators."""
