"""Canned Estimators: models that only need columns and a head."""
