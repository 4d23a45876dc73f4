"""Data to try topperk on: a simulated world whose true probabilities are known."""
