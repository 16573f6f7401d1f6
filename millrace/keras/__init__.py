"""`tf.keras`: layers and models as graph programs use them. Re-exports only."""
