"""What the user writes down: sweep files, policies, Darknet cfgs, targets."""
