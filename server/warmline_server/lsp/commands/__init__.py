"""`workspace/executeCommand`: one module a command, or a few that belong together."""
