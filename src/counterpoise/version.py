"""The version, where everybody can see it."""

VERSION = "0.1.0"
