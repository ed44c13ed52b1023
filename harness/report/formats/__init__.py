"""A report in the formats of other programs, a module for each."""
