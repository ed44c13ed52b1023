"""Compiling the engine for a target, and proving that the result fits it."""
