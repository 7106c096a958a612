"""Time and memory of one act each, against other libraries."""
