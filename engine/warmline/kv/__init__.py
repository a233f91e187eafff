"""Warm KV, always under an exact identity."""
