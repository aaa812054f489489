"""Grids of runs, the engine that does them, and what they say."""
