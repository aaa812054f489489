"""One run: its frozen spec, its folder, and the doing of it."""
