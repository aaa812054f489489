"""Do calibration error and curvature rise and fall together in a network that predicts text?"""
