"""Moments kept by time and by segment: the model of any selection of rows, without the rows."""
