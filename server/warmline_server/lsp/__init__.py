"""The language server: one module for each method."""
