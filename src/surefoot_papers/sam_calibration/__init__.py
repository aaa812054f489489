"""Towards Understanding the Calibration Benefits of Sharpness-Aware Minimization."""
