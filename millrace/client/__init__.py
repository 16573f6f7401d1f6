"""Sessions: mapping feeds and fetches, and handing steps to a backend."""
