"""Runtimes, which execute models: one module each."""
