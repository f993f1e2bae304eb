"""Runs that are killed, damaged, crowded or attacked. The suite has few cases of each, ``make faults`` all."""
