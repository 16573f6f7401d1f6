"""`tf.test`, and the kit that Millrace's own cluster tests are written with."""
