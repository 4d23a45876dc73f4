"""topperk."""
