"""From the outputs of a detector to boxes: a decoder for each family of networks."""
