"""The models harness knows: those that ship, and those whose weights are fetched from their authors."""
