"""The command line: thin, one file a command, quick to say what it can do."""
