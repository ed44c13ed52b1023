"""Measures cells, and evaluates the samples."""
