"""Heads of models: what logits mean, how they are judged, and what is served of them."""
