"""Boards: where a sweep's cells run. This machine, devices over SSH, and emulated devices."""
