#!/usr/bin/env python3
"""The version, in its one place: meson.build runs this file, and pyproject.toml asks meson."""

VERSION = "0.1.0"

if __name__ == "__main__":
    print(VERSION)
