"""Warmline's engine: local model variants with KV kept warm by exact identity."""

__version__ = "0.1.0"
