"""What changed between two runs: which cells became slower or faster, and which results differ."""
