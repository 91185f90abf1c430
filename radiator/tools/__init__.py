"""What operators run: the command line, the archiver, the audit; and what reads config.toml."""
