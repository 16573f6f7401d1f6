"""The wire: messages, services, and transports between tasks. The only place that knows gRPC."""

import os

# gRPC tells of every connection that ends; what matters of that, Millrace tells itself.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
