"""What programs take from TensorFlow's python.training.monitored_session."""

from millrace.training.sessions.monitored_session import USE_DEFAULT
from millrace.training.sessions.session_layers import CoordinatedSession as _CoordinatedSession
from millrace.training.sessions.session_layers import HookedSession as _HookedSession
from millrace.training.sessions.session_layers import RecoverableSession as _RecoverableSession
from millrace.training.sessions.session_layers import WrappedSession as _WrappedSession
