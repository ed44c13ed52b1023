"""What executes a model: one module a runtime."""
