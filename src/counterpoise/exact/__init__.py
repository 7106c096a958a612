"""Moments to weights to scores: the mathematics of the exact engine."""
