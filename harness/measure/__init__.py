"""One cell: what is measured of it, and what its figures say."""
