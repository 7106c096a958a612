"""Files in, model files out, each row exactly once: what the commands do, without a terminal."""
