#!/usr/bin/env python3
"""Version of the package: meson.build runs this file, and pyproject.toml uses the result."""

VERSION = "0.1.0"

if __name__ == "__main__":
    print(VERSION)
