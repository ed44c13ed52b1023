"""Facts about a board, and whether they fit its target."""
