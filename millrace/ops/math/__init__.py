"""Numbers: element by element, compared, reduced, counted."""
