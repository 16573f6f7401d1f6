"""What programs take from TensorFlow's core.example.feature_pb2 that has no public name."""

from millrace.data.example import (
    BytesList,
    Feature,
    FeatureList,
    FeatureLists,
    Features,
    FloatList,
    Int64List,
)
