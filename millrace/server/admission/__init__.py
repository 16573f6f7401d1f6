"""What is asked of remote clients, and how long their sessions last."""
