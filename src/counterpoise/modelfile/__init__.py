"""A model as one safetensors file: numbers and strings, never code."""
