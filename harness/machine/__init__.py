"""What this machine has, and getting what it lacks: the work behind `harness doctor`."""
