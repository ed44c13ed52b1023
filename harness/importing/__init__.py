"""Imports models of other formats, which become an extended cfg with Darknet weights."""
