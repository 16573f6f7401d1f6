"""Where a job runs: how a task finds its place, and what each scheduler is told."""
