"""The loop, when it looks (schedule), what it sees (observers) and how it survives (checkpoint)."""
