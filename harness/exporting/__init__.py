"""Models in other formats: a cfg with its weights as plain layers, and a module for each format."""
