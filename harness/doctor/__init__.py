"""What this machine has, and how it gets what it lacks: the work behind `harness doctor`."""
