"""Rewrites of the neutral graph: each keeps what the graph computes."""
