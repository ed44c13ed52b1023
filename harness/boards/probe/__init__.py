"""What a board is: its facts, and whether they fit its target."""
