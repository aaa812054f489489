"""The loop, when it observes (schedule), what it measures (observers) and how it resumes (checkpoint)."""
