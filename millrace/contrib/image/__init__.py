"""`tf.contrib.image`. Re-exports only."""

from millrace.contrib.image.transforms import (
    angles_to_projective_transforms,
    bipartite_match,
    compose_transforms,
    connected_components,
    flat_transforms_to_matrices,
    matrices_to_flat_transforms,
    rotate,
    transform,
    translate,
    translations_to_projective_transforms,
)
from millrace.contrib.image.warp import dense_image_warp, interpolate_spline, sparse_image_warp

__all__ = [
    "angles_to_projective_transforms",
    "bipartite_match",
    "compose_transforms",
    "connected_components",
    "dense_image_warp",
    "flat_transforms_to_matrices",
    "interpolate_spline",
    "matrices_to_flat_transforms",
    "rotate",
    "sparse_image_warp",
    "transform",
    "translate",
    "translations_to_projective_transforms",
]
