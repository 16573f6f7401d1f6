"""The hooks that come with the library, one family a file."""
