"""What programs take from TensorFlow's contrib.learn.python.learn.datasets.mnist."""

from millrace.data.mnist import (
    DataSet,
    Datasets,
    dense_to_one_hot,
    extract_images,
    extract_labels,
    load_mnist,
    read_data_sets,
)
