"""The version, apart from everything else so that reading it imports nothing."""

__version__ = "0.1.0"
