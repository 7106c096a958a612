"""Frames with words in them: learning and predicting as the command line does, from Python."""
