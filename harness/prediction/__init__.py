"""Predicts a board's time from the instructions and memory accesses of an emulated run."""
