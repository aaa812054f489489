"""Predictions and arrays in files."""

from surefoot.io.label_counts import read_label_counts
from surefoot.io.predictions_file import read_labels, read_predictions, read_scores

__all__ = ["read_label_counts", "read_labels", "read_predictions", "read_scores"]
