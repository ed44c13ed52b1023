"""Checks of this machine and of targets, and installation of missing packages, for `harness doctor`."""
