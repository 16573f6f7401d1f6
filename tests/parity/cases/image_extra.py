"""Image ops beyond the common ones: files of every format, boxes, similarity, seeded randomness."""

import base64

import numpy as np
from parity_kit import array, case, cases, floats, ints, scenario, strings

LOOSE = {"rtol": 1e-4, "atol": 1e-5}

# An image of 6 rows and 8 columns: a colour ramp, written by Pillow.
GIF = base64.b64decode(
    "R0lGODdhCAAGAIIAAKC0llC0eBS0YoxpaRRpPKAeS1AeLRQeFywAAAAACAAGAAAIJwAPCCRAQIBBgQcIGhRgoCGBAQEi"
    "GihQYABEAAAoVhyAMSNFix0DAgAh+QQBAAAIACwAAAAACAAGAIKgtJZQtHgUtGKMaWkUaTygHktQHi0UHhcIKQALCBww"
    "AIBBgQUIGgSAYCACBAYRGDBA4GGAAAcyEiAgoGPGAxs7CggIADs="
)
BMP = base64.b64decode(
    "Qk3GAAAAAAAAADYAAAAoAAAACAAAAAYAAAABABgAAAAAAJAAAADEDgAAxA4AAAAAAAAAAAAASwDIWh7IaTzIeFrIh3jI"
    "lpbIpbTItNLIPACgSx6gWjygaVqgeHigh5aglrSgpdKgLQB4PB54Szx4Wlp4aXh4eJZ4h7R4ltJ4HgBQLR5QPDxQS1pQ"
    "WnhQaZZQeLRQh9JQDwAoHh4oLTwoPFooS3goWpYoabQoeNIoAAAADx4AHjwALVoAPHgAS5YAWrQAadIA"
)
PALETTE_PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAGAgMAAACDazdoAAAADFBMVEVktIBkaVqMHkQUHhewDTq+AAAAGklEQVR4nGP8"
    "f5HhbwDTjw9MWxiYGBiYGBkASe8FxMxGbU0AAAAASUVORK5CYII="
)
JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywt"
    "QFdBRkxOUlNSMj5aYVpQYEpRUk//2wBDAQ4ODhMREyYVFSZPNS01T09PT09PT09PT09PT09PT09PT09PT09PT09PT09P"
    "T09PT09PT09PT09PT09PT09PT0//wAARCAAGAAgDASIAAhEBAxEB/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcI"
    "CQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEGE1FhByJxFDKBkaEII0KxwRVS0fAkM2JyggkKFhcYGRol"
    "JicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKTlJWWl5iZmqKjpKWmp6ip"
    "qrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/8QAHwEAAwEBAQEBAQEBAQAAAAAA"
    "AAECAwQFBgcICQoL/8QAtREAAgECBAQDBAcFBAQAAQJ3AAECAxEEBSExBhJBUQdhcRMiMoEIFEKRobHBCSMzUvAVYnLR"
    "ChYkNOEl8RcYGRomJygpKjU2Nzg5OkNERUZHSElKU1RVVldYWVpjZGVmZ2hpanN0dXZ3eHl6goOEhYaHiImKkpOUlZaX"
    "mJmaoqOkpaanqKmqsrO0tba3uLm6wsPExcbHyMnK0tPU1dbX2Nna4uPk5ebn6Onq8vP09fb3+Pn6/9oADAMBAAIRAxEA"
    "PwCp4Y0uP5OlFFFYz3FmGEo+2fun/9k="
)

# Pillow decodes with the accurate transform; TensorFlow's default is the fast one.
EXACT = {"dct_method": "INTEGER_ACCURATE"}


@case(inputs={"x": strings(JPEG)}, rtol=0, atol=4)
def decode_jpeg_by_other_ops(tf, x):
    return [
        tf.cast(tf.image.decode_png(x), tf.float32),
        tf.image.decode_image(x, dtype=tf.float32) * 255.0,
    ]


@cases(
    [
        ("decode_gif", {"x": strings(GIF)}, lambda tf, x: tf.image.decode_gif(x)),
        ("decode_gif_as_image", {"x": strings(GIF)}, lambda tf, x: tf.image.decode_image(x)),
        (
            "decode_gif_still",
            {"x": strings(GIF)},
            lambda tf, x: tf.image.decode_image(x, expand_animations=False),
        ),
        ("decode_bmp", {"x": strings(BMP)}, lambda tf, x: tf.image.decode_bmp(x)),
        ("decode_bmp_alpha", {"x": strings(BMP)}, lambda tf, x: tf.image.decode_bmp(x, 4)),
        ("decode_bmp_image", {"x": strings(BMP)}, lambda tf, x: tf.image.decode_image(x)),
        ("decode_palette", {"x": strings(PALETTE_PNG)}, lambda tf, x: tf.image.decode_png(x)),
        ("decode_jpeg", {"x": strings(JPEG)}, lambda tf, x: tf.image.decode_jpeg(x, **EXACT)),
        (
            "decode_jpeg_grey",
            {"x": strings(JPEG)},
            lambda tf, x: tf.image.decode_jpeg(x, 1, **EXACT),
        ),
        (
            "decode_jpeg_smaller",
            {"x": strings(JPEG)},
            lambda tf, x: tf.shape(tf.image.decode_jpeg(x, ratio=4)),
        ),
        (
            "decode_and_crop_jpeg",
            {"x": strings(JPEG)},
            # Colours at the window's edges depend on how far the decoder looks beyond it.
            lambda tf, x: tf.shape(tf.image.decode_and_crop_jpeg(x, [1, 2, 3, 4])),
        ),
        ("jpeg_shape", {"x": strings(JPEG)}, lambda tf, x: tf.image.extract_jpeg_shape(x)),
        ("is_jpeg", {"x": strings(JPEG)}, lambda tf, x: tf.image.is_jpeg(x)),
    ]
)
def files(tf, function, x):
    return function(tf, x)


for _name, _content, _function, _words in [
    ("gif_as_bmp_fails", GIF, lambda tf, x: tf.image.decode_bmp(x), "decode GIF format"),
    ("bmp_as_png_fails", BMP, lambda tf, x: tf.image.decode_png(x), "decode BMP format"),
    ("animation_as_png_fails", GIF, lambda tf, x: tf.image.decode_png(x), "Got 2 frames"),
    ("jpeg_has_no_alpha", JPEG, lambda tf, x: tf.image.decode_jpeg(x, 4), "not support 4"),
    ("two_channels_fail", JPEG, lambda tf, x: tf.image.decode_jpeg(x, 2), "must be 0, 1, 3 or 4"),
    ("half_a_jpeg_fails", JPEG[:300], lambda tf, x: tf.image.decode_jpeg(x), "Invalid JPEG data"),
    ("garbage_fails", b"garbage", lambda tf, x: tf.image.decode_image(x), "Unknown image file"),
    ("nothing_fails", b"", lambda tf, x: tf.image.decode_jpeg(x), "Input is empty"),
    (
        "crop_outside_a_jpeg_fails",
        JPEG,
        lambda tf, x: tf.image.decode_and_crop_jpeg(x, [1, 2, 30, 4]),
        "crop window",
    ),
]:

    @case(_name, {"x": strings(_content)}, raises=("InvalidArgumentError", _words))
    def bad_file(tf, x, function=_function):
        return function(tf, x)


@cases(
    [
        (
            f"png_{d}_{c}_channels",
            {"x": ints(3, 4, c, low=0, high=np.iinfo(d).max, dtype=d)},
            d,
        )
        for d in (np.uint8, np.uint16)
        for c in (1, 2, 3, 4)
    ]
)
def png_round_trip(tf, dtype, x):
    return tf.image.decode_png(tf.image.encode_png(x), dtype=tf.as_dtype(dtype))


@case(inputs={"x": ints(2, 3, 4, 1, low=0, high=255, dtype=np.uint8)})
def png_of_a_batch(tf, x):
    return tf.shape(tf.image.encode_png(x))


# --- boxes

BOXES = {
    "b": array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 2, 1, 3], [1, 1, 0, 0]]),
    "s": array([0.9, 0.75, 0.6, 0.95, 0.3]),
}


@case(inputs=BOXES, **LOOSE)
def suppression_with_scores(tf, b, s):
    return [
        tf.image.non_max_suppression_with_scores(b, s, 5, soft_nms_sigma=0.5),
        tf.image.non_max_suppression_with_scores(b, s, 5, 0.6, 0.5),
        tf.image.non_max_suppression(b, s, 5, 0.3, score_threshold=0.7),
    ]


@case(inputs={"o": array([[1.0, 0.6, 0.1], [0.6, 1, 0.2], [0.1, 0.2, 1]]), "s": array([1.0, 2, 3])})
def suppression_with_overlaps(tf, o, s):
    return tf.image.non_max_suppression_overlaps(o, s, 3, 0.5)


@case(inputs=BOXES)
def suppression_padded(tf, b, s):
    return tf.raw_ops.NonMaxSuppressionV4(
        boxes=b,
        scores=s,
        max_output_size=5,
        iou_threshold=0.5,
        score_threshold=0.0,
        pad_to_max_output_size=True,
    )


@cases(
    [
        ("draw_grey", {"x": floats(1, 5, 6, 1, low=0, high=1)}, {}),
        ("draw_many", {"x": floats(1, 5, 6, 4, low=0, high=1)}, {}),
        ("draw_colours", {"x": floats(1, 5, 6, 3, low=0, high=1)}, {"colors": [[0.1, 0.2, 0.3]]}),
    ]
)
def draw_bounding_boxes(tf, options, x):
    boxes = [[[0.1, 0.1, 0.8, 0.8], [0.0, 0.3, 0.5, 0.9], [-0.5, -0.5, 0.4, 1.7], [2, 2, 3, 3]]]
    return tf.image.draw_bounding_boxes(x, boxes, **options)


@scenario
def random_boxes_are_tensorflows(run, tf):
    boxes = tf.constant([[[0.1, 0.2, 0.9, 0.8], [0.5, 0.5, 0.6, 0.9]]])
    drawn = [
        tf.image.sample_distorted_bounding_box([120, 90, 3], boxes, seed=5),
        tf.image.sample_distorted_bounding_box(
            [33, 57, 3],
            boxes,
            seed=3,
            seed2=4,
            min_object_covered=0.7,
            aspect_ratio_range=[0.5, 2.0],
            area_range=[0.3, 0.9],
            max_attempts=20,
        ),
        tf.image.sample_distorted_bounding_box(
            [40, 40, 3], tf.zeros([1, 0, 4]), seed=9, use_image_if_no_bounding_boxes=True
        ),
    ]
    for _ in range(4):
        run(drawn)


@scenario
def random_boxes_need_boxes(run, tf):
    made = tf.image.sample_distorted_bounding_box([40, 40, 3], tf.zeros([1, 0, 4]))
    run.fails("InvalidArgumentError", made[0], words="No bounding boxes provided")


# --- seeded randomness

PIXELS = np.linspace(0, 1, 36, dtype=np.float32).reshape(3, 4, 3)


@scenario(**LOOSE)
def random_adjustments_are_tensorflows(run, tf):
    x = tf.constant(PIXELS)
    made = [
        tf.image.random_flip_left_right(x, seed=1),
        tf.image.random_flip_up_down(tf.stack([x, x * 2.0, x * 3.0]), seed=2),
        tf.image.random_brightness(x, 0.3, seed=3),
        tf.image.random_contrast(x, 0.5, 1.5, seed=4),
        tf.image.random_saturation(x, 0.5, 1.5, seed=5),
        tf.image.random_hue(x, 0.2, seed=6),
    ]
    for _ in range(3):
        run(made)


# --- similarity

PAIR = {"a": floats(2, 12, 13, 2, low=0, high=1), "b": floats(2, 12, 13, 2, low=0, high=1)}


@case(inputs=PAIR, **LOOSE)
def ssim(tf, a, b):
    return [
        tf.image.ssim(a, b, 1.0),
        tf.image.ssim(a, b, 1.0, filter_size=5, filter_sigma=1.0, k1=0.02),
    ]


@case(inputs=PAIR, variants=["known"], **LOOSE)
def ssim_multiscale(tf, a, b):
    return tf.image.ssim_multiscale(a, (a + b) / 2.0, 1.0, power_factors=(0.4, 0.6), filter_size=3)


@case(inputs={"a": ints(4, 5, 3, low=0, high=256, dtype=np.uint8)}, **LOOSE)
def psnr_of_bytes(tf, a):
    return tf.image.psnr(a, tf.bitwise.bitwise_xor(a, tf.constant(7, tf.uint8)), max_val=255)


@case(inputs={"x": floats(4, 6, 3, low=0.0, high=1.0)}, grad=True, **LOOSE)
def rgb_to_hsv_gradient(tf, x):
    return tf.image.rgb_to_hsv(x)


@case(inputs={"x": floats(2, 4, 4, 1), "b": array([[0.1, 0.13, 0.87, 0.94]])}, grad=True, **LOOSE)
def crop_and_resize_by_boxes(tf, x, b):
    return tf.image.crop_and_resize(x, b, [1], [3, 2])


@case(inputs={"x": floats(1, 3, 3, 1)})
def crop_and_resize_outside(tf, x):
    return tf.image.crop_and_resize(
        x, [[-0.5, -0.5, 1.5, 1.5], [1.0, 1.0, 0.0, 0.0]], [0, 0], [4, 1], extrapolation_value=9.0
    )


@cases(
    [
        ("to_int16", {"x": ints(2, 2, 1, low=0, high=256, dtype=np.uint8)}, "int16"),
        ("from_int16", {"x": ints(2, 2, 1, low=0, high=30000, dtype=np.int16)}, "uint8"),
        ("to_half", {"x": ints(2, 2, 1, low=0, high=256, dtype=np.uint8)}, "float16"),
        ("double_to_int", {"x": floats(2, 2, 1, low=0, high=1, dtype=np.float64)}, "int32"),
    ]
)
def convert_image_dtype(tf, dtype, x):
    return tf.image.convert_image_dtype(x, getattr(tf, dtype))
