"""`tf.keras.backend`. Re-exports only."""
