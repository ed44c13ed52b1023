"""One module a subcommand: `configure(parser)` and `run(arguments) -> exit status`."""
