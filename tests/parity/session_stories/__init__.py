"""Stories of supervised and monitored sessions, told by TensorFlow and by Millrace.

Each story is a function that takes the library `tf` and a `Story`, and notes what happens: which
hook is called when, with what, what is fetched, logged, written and raised. The notes are plain
values. `record_sessions.py` stores what TensorFlow tells; `test_sessions.py` compares.
"""

from session_stories import hooks, monitored, supervisors, trainings
from session_stories.story import SCENARIOS, Story

__all__ = ["SCENARIOS", "Story", "hooks", "monitored", "supervisors", "trainings"]
