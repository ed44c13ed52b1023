"""Sweeps: the matrix as cells, the store that survives any interruption, and the runner."""
