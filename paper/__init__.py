"""The paper's experiments, every table and figure, with our figures beside the printed ones."""
