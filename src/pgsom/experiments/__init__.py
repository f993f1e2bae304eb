"""Experiments: the paper's, made again and judged."""
