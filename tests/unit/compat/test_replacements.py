"""Sentences about names that Millrace lacks."""

from __future__ import annotations

import pytest

from millrace.compat import replacements


def test_what_replaces_a_missing_name_is_told_from_the_table() -> None:
    told = replacements.describe_missing("tensorflow.train.SummaryWriter")
    assert told == (
        "tf.train.SummaryWriter is not in Millrace; what there is for it: tf.summary.FileWriter"
    )


def test_an_entry_speaks_for_the_names_below_it() -> None:
    told = replacements.describe_missing("tf.contrib.keras.layers.Dense")
    assert told.endswith("what there is for it: tf.keras.layers.Dense")


def test_a_slip_of_the_keyboard_is_recognised_in_the_same_namespace() -> None:
    told = replacements.describe_missing("millrace.train.AdamOptimiser")
    assert told.endswith("; did you mean tf.train.AdamOptimizer?")


@pytest.mark.parametrize("name", ["tf.layerz_of_mine", "tf.contrib.ignite", "tf.lessons", "tf.x"])
def test_when_nothing_is_known_nothing_is_guessed(name: str) -> None:
    assert replacements.describe_missing(name) == f"{name} is not in Millrace"


def test_what_the_table_offers_is_there() -> None:
    # Namespaces that another part of the project may still lack are checked when they come.
    absent = {
        name
        for name in replacements.table().values()
        if replacements.resolve(name) is None
        and not name.startswith(("estimator", "feature_column", "data.experimental"))
    }
    assert absent == set()
