"""The wire: messages, services, and transports between tasks. The only place that knows gRPC."""

import os

# gRPC's core writes lines of its own to standard error (connections that end, ports that are
# taken, forks); what matters of that, Millrace says itself.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
