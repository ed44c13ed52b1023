"""Programs for maintainers. None of them is installed with `harness`."""
