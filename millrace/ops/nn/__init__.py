"""Neural networks: layers' arithmetic, losses, embeddings, recurrent cells."""
