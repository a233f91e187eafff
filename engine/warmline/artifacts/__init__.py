"""Bounded readers of untrusted model files; no native code."""
