"""Image ops: resizing, cropping, flipping, colour; random ones by their properties."""

import numpy as np
from parity_kit import array, case, cases, floats, ints, scenario

IMAGE = {"x": floats(4, 6, 3, low=0.0, high=1.0)}
BATCH = {"x": floats(2, 4, 6, 3, low=0.0, high=1.0)}
BYTES = {"x": ints(4, 6, 3, low=0, high=256, dtype=np.uint8)}
LOOSE = {"rtol": 1e-4, "atol": 1e-5}
SMALL = {"x": floats(1, 3, 4, 2)}


@cases(
    [
        (f"resize_{m}_{n}", SMALL, m, size, corners)
        for m in ("bilinear", "nearest_neighbor", "bicubic", "area")
        for n, size, corners in [
            ("up", [6, 8], False),
            ("down", [2, 2], False),
            ("odd", [5, 3], False),
            ("corners", [5, 7], True),
        ]
        if not (m == "nearest_neighbor" and n == "odd")
    ],
    **LOOSE,
)
def resize(tf, method, size, corners, x):
    return getattr(tf.image, f"resize_{method}")(x, size, align_corners=corners)


@cases(
    [
        (f"resize_{m}_gradient", SMALL, m, corners)
        for m, corners in [
            ("bilinear", False),
            ("nearest_neighbor", False),
            ("bicubic", False),
            ("bilinear", True),
        ]
        if not (m == "bilinear" and corners)
    ]
    + [("resize_bilinear_corners_gradient", SMALL, "bilinear", True)],
    grad=True,
    **LOOSE,
)
def resize_gradient(tf, method, corners, x):
    return getattr(tf.image, f"resize_{method}")(x, [5, 6], align_corners=corners)


@cases(
    [(f"resize_half_pixel_{m}", SMALL, m) for m in ("bilinear", "nearest_neighbor", "bicubic")],
    **LOOSE,
)
def resize_half_pixel(tf, method, x):
    return getattr(tf.image, f"resize_{method}")(x, [5, 6], half_pixel_centers=True)


@cases(
    [
        ("resize_images_default", BATCH, {}),
        ("resize_images_nearest", BATCH, {"method": 1}),
        ("resize_images_bicubic", BATCH, {"method": 2}),
        ("resize_images_area", BATCH, {"method": 3}),
        ("resize_images_single", IMAGE, {}),
        ("resize_images_aspect", IMAGE, {"preserve_aspect_ratio": True}),
    ],
    **LOOSE,
)
def resize_images(tf, options, x):
    return tf.image.resize_images(x, [3, 5], **options)


@case(inputs={"x": BYTES["x"]}, **LOOSE)
def resize_images_of_bytes(tf, x):
    return [tf.image.resize_images(x, [2, 3]), tf.image.resize_images(x, [2, 3], method=1)]


@case(inputs={"x": IMAGE["x"]}, variants=["known"])
def resize_images_to_the_same_size(tf, x):
    return tf.image.resize_images(x, [4, 6])


@cases(
    [
        ("crop_or_pad_crop", IMAGE, 2, 4),
        ("crop_or_pad_pad", IMAGE, 7, 9),
        ("crop_or_pad_mixed", IMAGE, 2, 9),
        ("crop_or_pad_odd", IMAGE, 3, 5),
    ],
    grad=True,
)
def resize_image_with_crop_or_pad(tf, height, width, x):
    return tf.image.resize_image_with_crop_or_pad(x, height, width)


# What has an unknown rank is taken for one image.
@case(inputs=BATCH, grad=True, variants=["known", "partial"])
def crop_or_pad_batch(tf, x):
    return tf.image.resize_image_with_crop_or_pad(x, 6, 3)


@case(inputs=IMAGE, **LOOSE)
def resize_image_with_pad(tf, x):
    return tf.image.resize_image_with_pad(x, 6, 6)


@cases(
    [
        ("central_crop_half", IMAGE, lambda tf, x: tf.image.central_crop(x, 0.5)),
        ("crop_to_bounding_box", IMAGE, lambda tf, x: tf.image.crop_to_bounding_box(x, 1, 2, 2, 3)),
        ("pad_to_bounding_box", IMAGE, lambda tf, x: tf.image.pad_to_bounding_box(x, 1, 2, 7, 10)),
        ("flip_left_right", IMAGE, lambda tf, x: tf.image.flip_left_right(x)),
        ("flip_up_down", IMAGE, lambda tf, x: tf.image.flip_up_down(x)),
        ("flip_batch", BATCH, lambda tf, x: tf.image.flip_left_right(x)),
        ("transpose_image", IMAGE, lambda tf, x: tf.image.transpose_image(x)),
    ],
    grad=True,
)
def geometry(tf, function, x):
    return function(tf, x)


@case(inputs=IMAGE, raises=("ValueError",))
def crop_outside_the_image(tf, x):
    return tf.image.crop_to_bounding_box(x, 3, 0, 3, 2)


COLOUR = {
    "adjust_brightness": lambda tf, x: tf.image.adjust_brightness(x, 0.2),
    "per_image_standardization": lambda tf, x: tf.image.per_image_standardization(x),
    "rgb_to_grayscale": lambda tf, x: tf.image.rgb_to_grayscale(x),
    "grayscale_to_rgb": lambda tf, x: tf.image.grayscale_to_rgb(x[..., :1]),
    "rgb_to_yiq": lambda tf, x: tf.image.rgb_to_yiq(x),
    "yiq_to_rgb": lambda tf, x: tf.image.yiq_to_rgb(x),
    "rgb_to_yuv": lambda tf, x: tf.image.rgb_to_yuv(x),
    "yuv_to_rgb": lambda tf, x: tf.image.yuv_to_rgb(x),
}


@cases([(n, IMAGE, f) for n, f in COLOUR.items()], grad=True, **LOOSE)
def colour(tf, function, x):
    return function(tf, x)


@cases(
    [
        ("adjust_contrast", IMAGE, lambda tf, x: tf.image.adjust_contrast(x, 1.7)),
        ("rot90_once", IMAGE, lambda tf, x: tf.image.rot90(x)),
        ("rot90_three", IMAGE, lambda tf, x: tf.image.rot90(x, 3)),
        ("adjust_saturation", IMAGE, lambda tf, x: tf.image.adjust_saturation(x, 0.5)),
        ("adjust_hue", IMAGE, lambda tf, x: tf.image.adjust_hue(x, 0.1)),
        ("adjust_gamma", IMAGE, lambda tf, x: tf.image.adjust_gamma(x, 2.0, 0.5)),
        ("rgb_to_hsv", IMAGE, lambda tf, x: tf.image.rgb_to_hsv(x)),
        ("hsv_to_rgb", IMAGE, lambda tf, x: tf.image.hsv_to_rgb(x)),
        ("total_variation", BATCH, lambda tf, x: tf.image.total_variation(x)),
        ("image_gradients", BATCH, lambda tf, x: tf.image.image_gradients(x)),
        ("sobel_edges", BATCH, lambda tf, x: tf.image.sobel_edges(x)),
        ("standardization_batch", BATCH, lambda tf, x: tf.image.per_image_standardization(x)),
        (
            "standardization_constant",
            {"x": array(np.ones((2, 2, 1), np.float32))},
            lambda tf, x: tf.image.per_image_standardization(x),
        ),
        ("contrast_batch", BATCH, lambda tf, x: tf.image.adjust_contrast(x, 0.5)),
    ],
    **LOOSE,
)
def colour_forward(tf, function, x):
    return function(tf, x)


@cases(
    [
        ("brightness_bytes", BYTES, lambda tf, x: tf.image.adjust_brightness(x, 0.1)),
        ("contrast_bytes", BYTES, lambda tf, x: tf.image.adjust_contrast(x, 1.3)),
        ("grayscale_bytes", BYTES, lambda tf, x: tf.image.rgb_to_grayscale(x)),
        ("standardization_bytes", BYTES, lambda tf, x: tf.image.per_image_standardization(x)),
        ("to_float", BYTES, lambda tf, x: tf.image.convert_image_dtype(x, tf.float32)),
        ("to_uint16", BYTES, lambda tf, x: tf.image.convert_image_dtype(x, tf.uint16)),
        ("float_to_bytes", IMAGE, lambda tf, x: tf.image.convert_image_dtype(x, tf.uint8)),
        (
            "float_to_bytes_saturated",
            IMAGE,
            lambda tf, x: tf.image.convert_image_dtype(x * 2.0, tf.uint8, saturate=True),
        ),
    ],
    **LOOSE,
)
def on_bytes(tf, function, x):
    return function(tf, x)


@case(
    inputs={"a": floats(2, 4, 6, 1, low=0, high=1), "b": floats(2, 4, 6, 1, low=0, high=1)}, **LOOSE
)
def psnr(tf, a, b):
    return tf.image.psnr(a, b, max_val=1.0)


@case(
    inputs={
        "b": array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 2, 1, 3]]),
        "s": array([0.9, 0.75, 0.6]),
    }
)
def non_max_suppression(tf, b, s):
    return [
        tf.image.non_max_suppression(b, s, 3, iou_threshold=0.5),
        tf.image.non_max_suppression(b, s, 1),
    ]


@cases(
    [
        (
            "crop_and_resize",
            {"x": floats(2, 4, 4, 1), "b": array([[0.0, 0.0, 1.0, 1.0], [0.25, 0.1, 0.8, 0.9]])},
            "bilinear",
        ),
        (
            "crop_and_resize_nearest",
            {"x": floats(2, 4, 4, 1), "b": array([[0.0, 0.0, 1.0, 1.0], [0.25, 0.1, 0.8, 0.9]])},
            "nearest",
        ),
    ],
    grad=["x"],
    **LOOSE,
)
def crop_and_resize(tf, method, x, b):
    return tf.image.crop_and_resize(x, b, [0, 1], [3, 3], method=method)


@case(inputs=BATCH, **LOOSE)
def extract_glimpse(tf, x):
    return tf.image.extract_glimpse(x, [2, 3], [[0.0, 0.0], [0.3, -0.2]])


@case(inputs=BATCH)
def draw_bounding_boxes(tf, x):
    return tf.image.draw_bounding_boxes(x, [[[0.1, 0.1, 0.8, 0.8]], [[0.0, 0.3, 0.5, 0.9]]])


# --- random image ops


@scenario
def random_flips_flip_or_not(run, tf):
    pixels = np.arange(12, dtype=np.float32).reshape(2, 6, 1)
    x = tf.constant(pixels)
    for flip, mirrored in (
        (tf.image.random_flip_left_right, pixels[:, ::-1]),
        (tf.image.random_flip_up_down, pixels[::-1]),
    ):
        made = flip(x, seed=1)
        seen = {value.tobytes() for value in (run.value(made) for _ in range(30))}
        assert seen == {pixels.tobytes(), np.ascontiguousarray(mirrored).tobytes()}
        run.note(made.get_shape().as_list())


@scenario
def random_brightness_adds_one_number(run, tf):
    x = tf.constant(np.linspace(0, 1, 12, dtype=np.float32).reshape(2, 2, 3))
    made = tf.image.random_brightness(x, 0.3, seed=1)
    deltas = []
    for _ in range(20):
        base, value = run.value([x, made])
        difference = value - base
        assert np.ptp(difference) < 1e-5 and np.abs(difference).max() <= 0.3
        deltas.append(float(difference.mean()))
    assert len(set(np.round(deltas, 5))) > 10
    run.note(made.dtype.name)


@scenario
def random_contrast_scales_about_the_mean(run, tf):
    base = np.linspace(0, 1, 12, dtype=np.float32).reshape(2, 2, 3)
    made = tf.image.random_contrast(tf.constant(base), 0.5, 1.5, seed=1)
    for _ in range(10):
        value = run.value(made)
        centred = value - base.mean((0, 1))
        ratio = centred / (base - base.mean((0, 1)))
        assert np.ptp(ratio) < 1e-3 and 0.5 <= ratio.mean() <= 1.5
    run.note(value.shape)


@scenario
def random_saturation_and_hue_keep_the_range(run, tf):
    x = tf.constant(np.random.RandomState(0).uniform(size=(3, 3, 3)).astype(np.float32))
    made = [tf.image.random_saturation(x, 0.5, 1.5, seed=1), tf.image.random_hue(x, 0.2, seed=1)]
    for value in run.value(made):
        assert value.min() >= 0 and value.max() <= 1.0001
        run.note([value.shape, value.dtype.name])


@scenario
def random_image_arguments_are_checked(run, tf):
    x = tf.zeros([2, 2, 3])
    run.raises("ValueError", lambda: tf.image.random_brightness(x, -0.1))
    run.raises("ValueError", lambda: tf.image.random_contrast(x, 2.0, 1.0))
    run.raises("ValueError", lambda: tf.image.random_hue(x, 0.7))
