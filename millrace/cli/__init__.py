"""The `millrace` command: one module per subcommand, `main` chooses among them."""
