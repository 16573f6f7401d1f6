"""Sessions that initialise, recover and are supervised."""
