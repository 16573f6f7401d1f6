"""What performs a step between tasks: messages, values, waits."""
