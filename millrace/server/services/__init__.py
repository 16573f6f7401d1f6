"""TensorFlow's gRPC services on top of a master and a worker."""
