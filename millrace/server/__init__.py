"""A task of a cluster: `tf.train.Server`, its master and its worker."""
