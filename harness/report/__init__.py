"""Results as tables: on the terminal, as Markdown and HTML beside the store, and as JSON."""
