"""Repairs of a network for int8: they rewrite its weights and ranges, and leave its layers as they are."""
