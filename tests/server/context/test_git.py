"""Git is asked in anybody's folders: it runs nothing that they name, and is waited for no longer than it is allowed."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest
from warmline_server.context import git
from warmline_server.context.gitignore import GitIgnore

# All that a repository can name and Git may run, with what Git would run it for, is `touch` with a name of its own.
SETTINGS = """
[core]
fsmonitor = "touch {0}/fsmonitor; false"
hooksPath = {0}/hooks
pager = touch {0}/pager
editor = touch {0}/editor
askPass = {0}/hooks/askpass
sshCommand = touch {0}/ssh
gitProxy = {0}/hooks/proxy
alternateRefsCommand = touch {0}/alternates
attributesFile = {0}/attributes
excludesFile = {0}/excludes
[pager]
ls-files = touch {0}/pager
check-ignore = touch {0}/pager
[alias]
ls-files = "!touch {0}/alias"
check-ignore = "!touch {0}/alias"
[filter "x"]
clean = touch {0}/clean
smudge = touch {0}/smudge
process = touch {0}/process
required = true
[diff "x"]
textconv = touch {0}/textconv
command = touch {0}/diff
[credential]
helper = "!touch {0}/credential"
[include]
path = {0}/included
[extensions]
partialClone = origin
[remote "origin"]
url = {0}/elsewhere
promisor = true
partialCloneFilter = blob:none
uploadpack = "touch {0}/uploadpack; git-upload-pack"
"""


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A repository whose settings name programs, each of which would leave a file in `tmp_path`/ran."""
    root, ran = tmp_path / "repository", tmp_path / "ran"
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / "a.txt").write_text("x\n")
    (root / ".gitignore").write_text("*.local\n")
    subprocess.run(["git", "-C", str(root), "add", "."], check=True)
    (root / ".gitattributes").write_text("* filter=x diff=x\n")
    (ran / "hooks").mkdir(parents=True)
    for name in ("post-index-change", "fsmonitor-watchman", "askpass", "proxy", "reference-transaction"):
        (ran / "hooks" / name).write_text(f"#!/bin/sh\ntouch {ran}/{name}\n")
        (ran / "hooks" / name).chmod(0o755)
    # The rules are to be read from an object that is not there, but promised.
    for folder in (root / ".git" / "objects").glob("??"):
        for file in folder.iterdir():
            file.unlink()
    subprocess.run(["git", "-C", str(root), "update-index", "--skip-worktree", ".gitignore"], check=True)
    (root / ".gitignore").unlink()
    (ran / "included").write_text(f'[core]\nfsmonitor = "touch {ran}/included-fsmonitor; false"\n')
    (ran / "excludes").write_text("*.mine\n")
    with (root / ".git" / "config").open("a") as config:
        config.write(SETTINGS.format(ran))
    return root


def list_plainly(folder: Path) -> None:
    subprocess.run(["git", "ls-files", "--others"], cwd=folder, check=True, capture_output=True)


async def test_nothing_that_a_repository_names_is_run(hostile: Path, monkeypatch: Any) -> None:
    ran = hostile.parent / "ran"
    before = sorted(path.name for path in ran.iterdir())
    monkeypatch.setenv("GIT_DIR", str(hostile.parent / "nowhere"))
    listed = await git.ask(hostile, "ls-files", "-z", "--cached", "--others", "--exclude-standard", seconds=10)
    assert listed is not None
    assert listed[0] == 0
    assert b"a.txt" in listed[1].split(b"\0")
    assert await GitIgnore().ignores(hostile / "b.mine")
    assert not await GitIgnore().ignores(hostile / "a.txt")
    assert sorted(path.name for path in ran.iterdir()) == before
    monkeypatch.delenv("GIT_DIR")
    list_plainly(hostile)
    assert sorted(path.name for path in ran.iterdir()) != before, "Git runs nothing, so that nothing is tested"


async def test_git_is_not_waited_for_longer_than_allowed(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "git").write_text("#!/bin/sh\nexec yes\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    async with asyncio.timeout(10):
        assert await git.ask(tmp_path, "ls-files", seconds=0.2) is None


async def test_no_git_is_no_answer(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert await git.ask(tmp_path, "ls-files", seconds=5) is None
    assert not await GitIgnore().ignores(tmp_path / "a.txt")
