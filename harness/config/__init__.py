"""What the user writes: sweep files, policies, Darknet cfgs, targets. Read and checked."""
