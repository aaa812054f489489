"""Predictions and arrays in files."""
