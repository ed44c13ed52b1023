"""Predicts a board's time from an emulated run: what its instructions and its memory accesses cost."""
