"""TensorFlow 1's MNIST tutorial: `input_data` (the data sets) and `mnist` (the network)."""
