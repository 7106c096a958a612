"""Columns of text, numbers and dates to features."""
