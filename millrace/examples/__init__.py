"""Programs written against the public interface (`import millrace as tf`) only."""

from millrace.examples import tutorials

__all__ = ["tutorials"]
