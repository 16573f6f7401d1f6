"""Stories of Estimators, told by TensorFlow 2.15 and by Millrace.

Each story is a function that takes the library `tf` and a `Story` (of session_stories), and notes
what is computed, logged, written and raised. `record_estimators.py` stores what TensorFlow tells;
`test_estimators.py` compares.
"""

from estimator_stories import canned, models, refusals, runs
from estimator_stories.models import SCENARIOS

__all__ = ["SCENARIOS", "canned", "models", "refusals", "runs"]
