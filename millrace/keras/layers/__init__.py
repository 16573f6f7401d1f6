"""`tf.keras.layers`. Re-exports only."""
