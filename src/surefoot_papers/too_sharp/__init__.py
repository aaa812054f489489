"""Too Sharp, Too Sure: When Calibration Follows Curvature."""
