"""Values in one safetensors file: numbers and strings, never code."""
