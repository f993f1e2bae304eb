"""One file a question; every answer is a ratio whose two sides were measured in one run."""
