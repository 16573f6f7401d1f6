"""Private ops of partitions: only passes make them."""
