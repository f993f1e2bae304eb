"""Runs: train by name, keep what came out."""

from pgsom.runs.plan import Settings
from pgsom.runs.result import Result, TrainedPolicy
from pgsom.runs.run import Progress, resume, sweep, train
from pgsom.runs.store import load, save, summary

__all__ = ["Progress", "Result", "Settings", "TrainedPolicy", "load", "resume", "save", "summary", "sweep", "train"]
