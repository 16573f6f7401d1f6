"""Input pipelines on queues."""
