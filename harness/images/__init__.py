"""Docker images of targets, made from pinned packages, and compilers that run in them."""
