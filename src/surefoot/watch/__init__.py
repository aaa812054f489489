"""Watching a training loop of one's own."""
