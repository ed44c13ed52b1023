"""Reads and checks the files that users write: sweeps, policies, Darknet cfgs, targets."""
