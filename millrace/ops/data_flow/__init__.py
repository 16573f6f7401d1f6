"""State that steps share: queues, accumulators, barriers, staging areas."""
