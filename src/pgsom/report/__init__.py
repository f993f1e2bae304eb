"""What was found, for people: figures, tables, pages."""
