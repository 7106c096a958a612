"""Statements about results, checked on many rows, data sets or kills."""
