"""Programs written against the public interface (`import millrace as tf`) only."""
