"""The estimator that chooses its feature map and ridge along the stream."""
