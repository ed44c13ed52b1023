"""How the speed of each cell changed over many runs, and in which run it made a step."""
