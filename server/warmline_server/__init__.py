"""The faces of Warmline: command line, language server."""
