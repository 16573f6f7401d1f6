"""`slim.nets`: networks that programs import. Re-exports only."""

from millrace.contrib.slim.nets import (
    alexnet,
    cifarnet,
    inception,
    lenet,
    mobilenet_v1,
    resnet_utils,
    resnet_v1,
    resnet_v2,
    vgg,
)

__all__ = [
    "alexnet",
    "cifarnet",
    "inception",
    "lenet",
    "mobilenet_v1",
    "resnet_utils",
    "resnet_v1",
    "resnet_v2",
    "vgg",
]
