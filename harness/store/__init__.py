"""Results: one SQLite file for each results folder."""
