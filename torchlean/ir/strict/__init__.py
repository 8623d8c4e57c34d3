"""Strict mathematics: functions defined by exact and once-rounded operations, the same bits wherever they run."""
