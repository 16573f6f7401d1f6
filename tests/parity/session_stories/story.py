"""What the stories are told with: notes, a hook that notes every call, and looks into folders."""

from __future__ import annotations

import contextlib
import logging
import os
import re

import numpy as np

SCENARIOS = {}


def scenario(function):
    SCENARIOS[function.__name__] = function
    return function


class Story:
    """Notes in the order of events."""

    def __init__(self, folder):
        self.folder = folder
        self.events = []

    def note(self, *words):
        self.events.append([plain(word) for word in words])

    @contextlib.contextmanager
    def raises(self, text=True):
        """Notes the class of the exception that leaves the block, and the start of its text."""
        try:
            yield
        except Exception as error:
            self.note("raised", type(error).__name__, first_sentence(error) if text else "")
        else:
            self.note("nothing raised")

    @contextlib.contextmanager
    def logs(self, tf, pattern, text=True):
        """Notes the log lines that match, without what differs from run to run."""
        story = self

        class Listener(logging.Handler):
            def emit(self, record):
                line = record.getMessage()
                if not re.search(pattern, line) or "deprecated" in line:
                    return
                line = line.replace(story.folder, "FOLDER")
                line = re.sub(r"\d+\.\d+", "N.N", line)
                line = re.sub(r"<\S+ object at 0x[0-9a-f]+>", "OBJECT", line)
                story.note("log", record.levelname, line if text else "")

        logger = logging.getLogger("tensorflow" if "tensorflow" in tf.__name__ else "millrace")
        listener = Listener()
        level = logger.level
        logger.addHandler(listener)
        logger.setLevel(logging.INFO)
        try:
            yield
        finally:
            logger.removeHandler(listener)
            logger.setLevel(level)


def plain(value):
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, bytes):
        return value.decode()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return getattr(value, "name", type(value).__name__)


def first_sentence(error):
    text = str(error).strip().split("\n")[0]
    return re.split(r"(?<=[a-z0-9])\.( |$)|[:,(\[]", text)[0].strip().rstrip(".")


def recording_hook(tf, story, name="hook", fetches=None, feeds=None, raises=None, stop_after=None):
    """A hook that notes every call."""

    class Recording(tf.train.SessionRunHook):
        runs = 0

        def begin(self):
            story.note(name, "begin", tf.get_default_graph().finalized)
            self.fail("begin")

        def after_create_session(self, session, coord):
            story.note(
                name,
                "after_create_session",
                session.graph is tf.get_default_graph(),
                coord.should_stop(),
                tf.get_default_graph().finalized,
            )
            self.fail("after_create_session")

        def before_run(self, run_context):
            story.note(
                name,
                "before_run",
                run_context.original_args.fetches,
                run_context.original_args.feed_dict,
                run_context.stop_requested,
            )
            self.fail("before_run")
            if fetches is None and feeds is None:
                return None
            return tf.train.SessionRunArgs(fetches, feed_dict=feeds)

        def after_run(self, run_context, run_values):
            Recording.runs += 1
            story.note(
                name,
                "after_run",
                run_values.results,
                type(run_values.options).__name__,
                type(run_values.run_metadata).__name__,
            )
            self.fail("after_run")
            if stop_after is not None and Recording.runs >= stop_after:
                run_context.request_stop()

        def end(self, session):
            story.note(name, "end", session is not None)
            self.fail("end")

        def fail(self, where):
            if raises == where:
                raise LookupError(f"{name} fails in {where}")

    return Recording()


def counter(tf):
    """A graph with a global step, and an operation that adds one to it."""
    step = tf.train.get_or_create_global_step()
    return step, tf.assign_add(step, 1)


def event_files(tf, folder, remove=False):
    """What the event files of a folder tell, in order: kind, step, tags.

    They may be removed: TensorFlow gives two that are made within a second the same name.
    """
    told = []
    for file in sorted(os.listdir(folder)):
        if "tfevents" not in file:
            continue
        for event in tf.train.summary_iterator(os.path.join(folder, file)):
            kind = event.WhichOneof("what")
            if kind == "summary":
                told.append([kind, event.step, [value.tag for value in event.summary.value]])
            elif kind == "session_log":
                told.append([kind, event.step, event.session_log.status])
            else:
                told.append([kind, event.step])
        if remove:
            os.remove(os.path.join(folder, file))
    return told


def checkpoints(folder):
    return sorted(
        (file for file in os.listdir(folder) if file.endswith(".index")),
        key=lambda file: (len(file), file),
    )
