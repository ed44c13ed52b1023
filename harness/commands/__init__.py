"""One module per subcommand: `configure(parser)` and `run(arguments) -> exit status`."""
