"""What is wrong with a model's confidence, and what to try next."""
