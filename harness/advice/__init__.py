"""Chooses among the rows of a report: which one meets a user's limits, and what is not known."""
