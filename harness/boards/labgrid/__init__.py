"""Boards that a labgrid coordinator lends."""
