"""Arrays in, arrays out: numpy and numba only, and nothing of the rest of topperk."""
