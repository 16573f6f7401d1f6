"""The wire: messages, services, and transports between tasks. The only place that knows gRPC."""
