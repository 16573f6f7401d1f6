"""What programs take from TensorFlow's python.training.monitored_session that has no public name."""

from millrace.training.monitored_session import USE_DEFAULT
from millrace.training.session_layers import CoordinatedSession as _CoordinatedSession
from millrace.training.session_layers import HookedSession as _HookedSession
from millrace.training.session_layers import RecoverableSession as _RecoverableSession
from millrace.training.session_layers import WrappedSession as _WrappedSession
