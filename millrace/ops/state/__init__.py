"""Variables: their op types, classes, scopes, initial values and update rules."""
