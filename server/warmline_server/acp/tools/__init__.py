"""What the model can do beside answering, one tool a file."""

from __future__ import annotations

from .edit_file import EditFile
from .list_dir import ListDir
from .read_file import ReadFile
from .run_command import RunCommand
from .search import Search
from .tool import Tool
from .write_file import WriteFile

BUILT_IN: tuple[Tool, ...] = (ReadFile(), ListDir(), Search(), EditFile(), WriteFile(), RunCommand())
