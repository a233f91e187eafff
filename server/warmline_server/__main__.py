"""`python -m warmline_server` is the `warmline` command."""

from .cli import main

main()
