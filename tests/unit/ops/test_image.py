"""Image ops: errors, unknown shapes, and matrices of resizing; values are in the parity cases."""

import io

import numpy as np
import pytest
from PIL import Image

import millrace as tf
from millrace.core import errors
from millrace.ops.image import png_format
from millrace.ops.image import resize as image_resize

RAMP = np.arange(2 * 3 * 3, dtype=np.float32).reshape(2, 3, 3) / 18


def run(build, feed=None):
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(build(), feed)


def unknown(value):
    return tf.placeholder_with_default(value, None)


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("half_pixel", [False, True])
@pytest.mark.parametrize("name", ["nearest", "linear", "cubic"])
def test_each_row_of_a_resize_matrix_sums_to_one(name, corners, half_pixel):
    if corners and half_pixel:
        return
    for size, new_size in ((5, 8), (8, 5), (1, 4), (4, 1), (6, 6)):
        matrix = getattr(image_resize, f"{name}_matrix")(size, new_size, corners, half_pixel)
        assert matrix.shape == (new_size, size)
        np.testing.assert_allclose(matrix.sum(1), 1, rtol=1e-5)


def test_an_area_matrix_averages():
    np.testing.assert_allclose(
        image_resize.area_matrix(4, 2, False), [[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]]
    )


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: tf.image.resize_bilinear(RAMP[None], unknown([0, 3])), "must be positive"),
        (
            lambda: tf.image.resize_bilinear(
                RAMP[None], [2, 2], align_corners=True, half_pixel_centers=True
            ),
            "align_corners must be False",
        ),
        (lambda: tf.image.rgb_to_hsv(unknown(RAMP[..., :2])), "must have 3 channels"),
        (
            lambda: tf.image.crop_and_resize(
                RAMP[None], [[0.0, 0.0, 1.0, 1.0]], unknown([1]), [2, 2]
            ),
            "box_index has values outside",
        ),
        (lambda: tf.image.flip_left_right(unknown(RAMP[0])), "at least three-dimensional"),
        (
            lambda: tf.image.crop_to_bounding_box(unknown(RAMP), 1, 0, 2, 2),
            r"height must be >= target \+ offset",
        ),
        (lambda: tf.image.encode_jpeg(np.zeros((2, 2, 4), np.uint8)), "must have 1 or 3 channels"),
        (lambda: tf.image.encode_jpeg(np.zeros((2, 2, 1), np.uint8), quality=101), "quality"),
        (lambda: tf.image.encode_png(np.zeros((2, 2, 5), np.uint8)), "got 5"),
        (lambda: tf.image.decode_png(b"\x89PNG\r\n\x1a\nxxxx"), "Invalid PNG"),
        (lambda: tf.image.non_max_suppression([[0.0] * 4], [1.0], 1, 2.0), "iou_threshold"),
    ],
)
def test_a_bad_value_is_an_invalid_argument(build, words):
    with tf.Graph().as_default(), tf.Session() as session:
        fetch = build()
        with pytest.raises(errors.InvalidArgumentError, match=words):
            session.run(fetch)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: tf.image.resize_images(tf.placeholder(tf.float32), [2, 2]), "contains no shape"),
        (lambda: tf.image.resize_images(RAMP, [2, 2, 2]), "2 elements"),
        (lambda: tf.image.resize_images(RAMP, [2, 2], method=9), "not implemented: 9"),
        (lambda: tf.image.resize_images(RAMP[0], [2, 2]), "3 or 4 dimensions"),
        (lambda: tf.image.central_crop(RAMP, 1.5), r"within \(0, 1\]"),
        (lambda: tf.image.pad_to_bounding_box(RAMP, 0, 0, 1, 9), "height must be <= target"),
        (lambda: tf.image.flip_up_down(RAMP[0]), "at least three-dimensional"),
        (lambda: tf.image.grayscale_to_rgb(RAMP), "should be size 1"),
        (lambda: tf.image.random_contrast(RAMP, 2.0, 1.0), "upper must be > lower"),
        (lambda: tf.image.random_hue(RAMP, 0.6), "max_delta must be <= 0.5"),
        (lambda: tf.image.random_jpeg_quality(RAMP, 90, 80), "must be less than"),
        (lambda: tf.image.adjust_gamma(RAMP, -1), "non-negative"),
        (lambda: tf.image.total_variation(tf.constant([1.0])), "3 or 4-dimensional"),
    ],
)
def test_a_bad_argument_fails_while_the_graph_is_built(build, words):
    with tf.Graph().as_default(), pytest.raises(ValueError, match=words):
        build()


def test_a_fraction_known_only_at_run_time_crops():
    image = np.arange(16.0).reshape(4, 4, 1)
    cropped = run(lambda: tf.image.central_crop(image, unknown(np.float32(0.5))))
    assert cropped[..., 0].tolist() == [[5, 6], [9, 10]]


def test_images_of_unknown_rank_are_flipped_and_turned():
    for value in (RAMP, RAMP[None]):
        axis = value.ndim - 2
        flipped = run(lambda v=value: tf.image.flip_left_right(unknown(v)))
        np.testing.assert_array_equal(flipped, np.flip(value, axis))
        turned = run(lambda v=value: tf.image.rot90(unknown(v), unknown(1)))
        np.testing.assert_array_equal(turned, np.rot90(value, axes=(axis - 1, axis)))


def test_targets_known_only_at_run_time_crop_and_pad():
    got = run(lambda: tf.image.resize_image_with_crop_or_pad(RAMP, unknown(4), unknown(1)))
    assert got.shape == (4, 1, 3)
    np.testing.assert_array_equal(got[1:3, 0], RAMP[:, 1])


def test_jpeg_quality_can_be_lowered_at_random():
    image = np.random.RandomState(0).uniform(size=(16, 16, 3)).astype(np.float32)
    poor = run(lambda: tf.image.random_jpeg_quality(image, 5, 10, seed=1))
    assert poor.shape == image.shape
    assert 0.01 < np.abs(poor - image).mean() < 0.5
    good = run(lambda: tf.image.adjust_jpeg_quality(image, 100))
    assert np.abs(good - image).mean() < np.abs(poor - image).mean()


def test_jpeg_options_reach_the_file():
    pixels = np.random.RandomState(0).randint(0, 255, (32, 32, 3)).astype(np.uint8)

    def encoded(**options):
        return Image.open(io.BytesIO(run(lambda: tf.image.encode_jpeg(pixels, **options))))

    assert encoded(progressive=True).info.get("progressive")
    assert not encoded().info.get("progressive")
    assert encoded(x_density=72, y_density=72).info["dpi"] == (72, 72)
    full, thin = (
        len(run(lambda f=flag: tf.image.encode_jpeg(pixels, chroma_downsampling=f)))
        for flag in (False, True)
    )
    assert full > thin


@pytest.mark.parametrize("filters", [0, 1, 2, 3, 4])
def test_deep_png_files_with_every_filter_are_read(filters):
    rng = np.random.RandomState(filters)
    pixels = rng.randint(0, 65536, (3, 4, 3)).astype(np.uint16)
    rows = pixels.astype(">u2").view(np.uint8).reshape(3, -1).astype(int)
    above, lines, step = np.zeros(rows.shape[1], int), b"", 6
    for row in rows:
        left = np.concatenate([np.zeros(step, int), row[:-step]])
        corner = np.concatenate([np.zeros(step, int), above[:-step]])
        paeth = [png_format._paeth(*v) for v in zip(left, above, corner, strict=True)]
        guess = [np.zeros_like(row), left, above, (left + above) // 2, np.array(paeth)][filters]
        lines += bytes([filters]) + ((row - guess) % 256).astype(np.uint8).tobytes()
        above = row
    ours = png_format.encode(pixels, 6)
    chunks = png_format._chunks(ours)
    packed = png_format.zlib.compress(lines)
    content = (
        ours[:8]
        + png_format._chunk(b"IHDR", chunks[b"IHDR"])
        + png_format._chunk(b"IDAT", packed)
        + png_format._chunk(b"IEND", b"")
    )
    np.testing.assert_array_equal(
        run(lambda: tf.image.decode_png(content, dtype=tf.uint16)), pixels
    )


def test_what_we_write_others_read():
    for channels in (1, 3, 4):
        pixels = np.random.RandomState(0).randint(0, 255, (5, 6, channels)).astype(np.uint8)
        content = run(lambda p=pixels: tf.image.encode_png(p, compression=9))
        read = np.asarray(Image.open(io.BytesIO(content)))
        np.testing.assert_array_equal(read.reshape(5, 6, channels), pixels)


def test_augmentation_of_a_batch_is_one_program():
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [4, 8, 8, 3])
        y = tf.image.random_flip_left_right(x, seed=1)
        y = tf.image.random_brightness(y, 0.1, seed=2)
        y = tf.image.resize_bilinear(tf.image.per_image_standardization(y), [5, 5])
        got = session.run(y, {x: np.random.RandomState(0).uniform(size=(4, 8, 8, 3))})
        assert session._backend.xla_calls == 1
        assert got.shape == (4, 5, 5, 3)
        assert abs(got.mean()) < 0.3
