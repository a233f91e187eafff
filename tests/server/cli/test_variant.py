"""`warmline variant`: defined of installed parts, listed as what can be selected, and compared by identity."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_backend import write_adapter, write_base
from smollm2 import ACME, FIM, PACKAGE
from store_tools import acme, filled
from warmline.registry import Store
from warmline.store.records import DeclaredBase
from warmline_server.listing import list_rows

Run = Callable[..., Any]


@pytest.fixture
def store(home: Path, tmp_path: Path) -> Store:
    return filled(home, tmp_path)


def test_add_writes_what_a_person_would(warmline: Run, store: Store, tmp_path: Path) -> None:
    profile = tmp_path / "profile.json"
    profile.write_text('{"max_tokens": 16, "sampling": {"temperature": 0.5}}')
    done = warmline(
        *("variant", "add", "v", "--base", "base", "--adapter", "style@-0.5"),
        *("--profile-file", profile, "--description", "Ours", "--json"),
    )
    assert done.code == 0, done.err
    assert json.loads(Path(done.json["file"]).read_text()) == {
        "name": "v",
        "backend": "llama",
        "description": "Ours",
        "base": {"name": "base"},
        "adapters": [{"name": "style", "scale": -0.5}],
        "profile": {"max_tokens": 16, "sampling": {"temperature": 0.5}},
    }
    taken = warmline("variant", "add", "v", "--base", "base", "--json").json["error"]
    assert taken["code"] == "store.exists"
    assert "--replace" in taken["remedy"]
    assert warmline("variant", "add", "v", "--base", "base", "--replace").code == 0


def test_the_list_shows_what_each_is_made_of(warmline: Run, store: Store) -> None:
    store.add_variant(acme("half", adapters=({"name": "style", "scale": "0.5"},)))
    assert warmline("config", "set", "default-variant", "half").code == 0
    rows = {row["name"]: row for row in warmline("variant", "list", "--json").json}
    assert rows["half"]["adapters"] == [{"name": "style", "scale": "0.5", "written": None, "trust": "user, unverified"}]
    assert (rows["half"]["base"], rows["half"]["kind"], rows["half"]["backend"]) == ("base", "dynamic", "llama")
    assert [name for name, row in rows.items() if row["selected"]] == ["half"]
    text = warmline("variant", "list").out
    assert "base -> style@0.5" in text
    assert "dynamic" in text


def test_a_broken_variant_is_listed_with_its_fault(warmline: Run, store: Store, home: Path) -> None:
    (home / "variants/llama/broken.json").write_text('{"name": "broken", "base": {"name": "gone"}}')
    rows = {row["name"]: row for row in warmline("variant", "list", "--json").json}
    assert rows["broken"]["error"]["code"] == "store.unknown_model"
    assert rows["acme"]["error"] is None
    assert "gone" in warmline("variant", "list").out


def test_what_a_workspace_brings_is_listed_as_not_approved(
    warmline: Run, store: Store, home: Path, tmp_path: Path
) -> None:
    root = tmp_path / "project"
    (root / ".warmline/variants").mkdir(parents=True)
    adapter = write_adapter(root / "adapter.gguf", weights=b"\x02")
    variant = {"name": "w", "base": {"name": "base"}, "adapters": [{"name": "a", "path": "../../adapter.gguf"}]}
    digest = warmline("trust", "add", adapter, "--json").json[0]["digest"]
    variant["adapters"][0]["digest"] = digest
    (root / ".warmline/variants/w.json").write_text(json.dumps(variant))
    (root / ".warmline/config.json").write_text('{"variant": "w"}')
    assert trust_of("w", warmline, root) == "user, unverified"
    assert warmline("trust", "remove", digest).code == 0
    assert trust_of("w", warmline, root) == "not approved"


def test_a_record_that_a_workspace_brings_cannot_approve_another_file(
    warmline: Run, store: Store, tmp_path: Path
) -> None:
    root = tmp_path / "project"
    (root / ".warmline/variants").mkdir(parents=True)
    adapter = write_adapter(root / "adapter.gguf", weights=b"\x02")
    variant = {"name": "w", "base": {"name": "base"}, "adapters": [{"name": "a", "path": "../../adapter.gguf"}]}
    (root / ".warmline/variants/w.json").write_text(json.dumps(variant))
    (root / ".warmline/config.json").write_text('{"variant": "w"}')
    approved = store.get_adapter("style")
    assert warmline("trust", "add", store.adapter_path(approved), "--json").code == 0
    record = approved.model_copy(update={"base": DeclaredBase(digest=store.get_model("base").digest)})
    (root / "adapter.json").write_text(record.model_dump_json(by_alias=True))
    assert trust_of("w", warmline, root) == "not approved"
    adapter.write_bytes(store.adapter_path(approved).read_bytes())
    assert trust_of("w", warmline, root) == "user"


def trust_of(name: str, warmline: Run, root: Path) -> str:
    return next(row["trust"] for row in warmline("variant", "list", root, "--json").json if row["name"] == name)


@pytest.mark.parametrize("path", ["/etc/passwd", "../../../x.gguf", "~/x.gguf", "C:\\x.gguf"])
def test_a_workspace_cannot_name_files_outside_itself(warmline: Run, store: Store, tmp_path: Path, path: str) -> None:
    """Row 26: neither listed as usable nor resolved."""
    root = tmp_path / "project"
    (root / ".warmline/variants").mkdir(parents=True)
    variant = {"name": "w", "base": {"name": "base"}, "adapters": [{"name": "a", "path": path}]}
    (root / ".warmline/variants/w.json").write_text(json.dumps(variant))
    (root / ".warmline/config.json").write_text('{"variant": "w"}')
    row = next(row for row in warmline("variant", "list", root, "--json").json if row["name"] == "w")
    assert row["error"]["code"] == "config.path"
    assert warmline("variant", "show", "w", "--in", root, "--json").json["error"]["code"] == "config.path"


@pytest.mark.parametrize(
    ("arguments", "code", "field"),
    [
        (["--base", "other"], "store.unknown_model", "name"),
        (["--base", "../base"], "store.unknown_model", "name"),
        (["--base", "base", "--adapter", "gone"], "store.unknown_adapter", "name"),
        (["--base", "base", "--adapter", "style@0"], "config.field", "adapters[0].scale"),
        (["--base", "base", "--adapter", "style@nan"], "config.field", "adapters[0].scale"),
        (["--base", "base", "--adapter", "style@5"], "config.field", "adapters[0].scale"),
        (["--base", "base", "--adapter", "style@x"], "config.field", "adapters[0].scale"),
        (["--base", "base", "--adapter", "style", "--adapter", "style"], "config.field", None),
        (["--base", "base", "--adapter", "../style"], "config.field", "adapters[0].name"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_defined(
    warmline: Run, store: Store, home: Path, arguments: list[str], code: str, field: str | None
) -> None:
    done = warmline("variant", "add", "v", *arguments, "--json")
    assert (done.code, done.json["error"]["code"]) == (1, code), done.json
    assert field is None or done.json["error"]["field"] == field
    assert not (home / "variants/llama/v.json").exists()


@pytest.mark.parametrize("name", ["../v", "V", "con", "a/b"])
def test_names_that_could_be_paths(warmline: Run, store: Store, home: Path, name: str) -> None:
    before = sorted(home.rglob("*.json"))
    assert warmline("variant", "add", name, "--base", "base", "--json").json["error"]["code"] == "config.field"
    assert sorted(home.rglob("*.json")) == before


@pytest.mark.parametrize(
    ("text", "code"),
    [('{"n_ctx": 1}', "config.field"), ('{"nctx": 512}', "config.unknown_field"), ("[", "config.json")],
)
def test_a_profile_file_is_checked_like_a_variants(
    warmline: Run, store: Store, tmp_path: Path, text: str, code: str
) -> None:
    file = tmp_path / "profile.json"
    file.write_text(text)
    error = warmline("variant", "add", "v", "--base", "base", "--profile-file", file, "--json").json["error"]
    assert (error["code"], error["file"]) == (code, str(file))


def test_removing_the_default_unsets_it_and_says_so(warmline: Run, store: Store) -> None:
    store.add_variant(acme("other"))
    assert warmline("config", "set", "default-variant", "acme").code == 0
    assert warmline("variant", "remove", "other", "--json").json == {"removed": "other", "default_unset": False}
    assert warmline("config", "get", "default-variant").out == "acme\n"
    done = warmline("variant", "remove", "acme")
    assert done.code == 0
    assert "is unset now" in done.err
    assert warmline("config", "get", "default-variant", "--json").json == {"default-variant": None}
    assert warmline("variant", "remove", "acme", "--json").json["error"]["code"] == "variant.unknown"


def test_the_selected_variant_is_listed_with_the_scales_of_the_workspace(
    warmline: Run, store: Store, tmp_path: Path
) -> None:
    (tmp_path / "project/.warmline").mkdir(parents=True)
    config = {"variant": "acme", "overrides": {"scales": {"style": 0.5}}}
    (tmp_path / "project/.warmline/config.json").write_text(json.dumps(config))
    store.add_variant(acme("other"))
    rows = {row["name"]: row for row in warmline("variant", "list", tmp_path / "project", "--json").json}
    assert [(part["scale"], part["written"]) for part in rows["acme"]["adapters"]] == [("0.5", "1")]
    assert [(part["scale"], part["written"]) for part in rows["other"]["adapters"]] == [("1", None)]
    done = warmline("variant", "list", tmp_path / "project")
    assert "base -> style@0.5" in done.out
    assert "style@0.5 (its own: 1), by .warmline/config.json" in done.err
    assert warmline("status", tmp_path / "project").code in (0, 1)


def test_of_two_bases_the_preferred_backends_is_taken(warmline: Run, store: Store, home: Path) -> None:
    record = json.loads((home / "models/llama/base/record.json").read_text()) | {"backend": "openvino"}
    (home / "models/openvino/base").mkdir(parents=True)
    (home / "models/openvino/base/record.json").write_text(json.dumps(record))
    done = warmline("variant", "add", "v", "--base", "base")
    assert done.code == 0, done.err
    assert "On llama/base" in done.err
    (home / "config.json").write_text('{"backend": "openvino"}')
    assert warmline("variant", "add", "w", "--base", "base", "--json").json["backend"] == "openvino"


def test_the_first_step_is_a_base(warmline: Run, home: Path) -> None:
    assert "warmline model add" in warmline("variant", "list").err
    checks = {row["check"]: row for row in warmline("doctor", "--json").json["checks"]}
    assert checks["variants"]["remedy"].startswith("warmline model add")


def test_what_is_piped_is_not_folded(warmline: Run, store: Store, tmp_path: Path) -> None:
    long = "v" + "x" * 63
    store.add_variant(acme(long, adapters=tuple({"name": "style"} for _ in range(1))))
    (line,) = (line for line in warmline("variant", "list").out.splitlines() if long in line)
    assert "base -> style@1" in line
    (line,) = (line for line in warmline("config", "list").out.splitlines() if line.startswith("default-variant"))
    assert line.endswith("if there is one.")


@pytest.mark.model
def test_diff_names_the_fields_of_identity(warmline: Run) -> None:
    assert warmline("model", "add", PACKAGE, "--name", "smollm2").code == 0
    for name, file in (("acme", ACME), ("fim", FIM)):
        assert warmline("adapter", "add", file, "--base", "smollm2", "--name", name).code == 0
    for name, adapter in (("a", "acme"), ("b", "fim"), ("half", "acme@0.5"), ("same", "acme")):
        assert warmline("variant", "add", name, "--base", "smollm2", "--adapter", adapter).code == 0
    assert fields(warmline, "a", "b") == {"adapters[0].digest"}
    assert fields(warmline, "a", "half") == {"adapters[0].scale", "adapters[0].effective_scale"}
    same = warmline("variant", "diff", "a", "same", "--json").json
    assert (same["same"], same["fields"]) == (True, [])
    assert same["a"]["identity"] == same["b"]["identity"]
    shown = warmline("variant", "show", "half", "--json").json
    assert shown["identity"] == warmline("variant", "diff", "half", "a", "--json").json["a"]["identity"]
    assert shown["capacity"]["kv_bytes_per_token"] > 0
    text = warmline("variant", "show", "half").out
    for part in ("smollm2", "0.5 (effective 1)", "4096 tokens", "a token", shown["identity"]):
        assert part in text


def fields(warmline: Run, a: str, b: str) -> set[str]:
    return {row["field"] for row in warmline("variant", "diff", a, b, "--json").json["fields"]}


def test_a_narrow_terminal_gets_blocks(store: Store, entry: list[str]) -> None:
    """Columns of three letters can't be read: below the width of the table, each variant is a block."""
    wide, narrow = (screen([*entry, "variant", "list"], columns) for columns in (120, 40))
    assert any("acme" in line and "base -> style@1" in line for line in wide)
    assert any(line.split() == ["variant", "acme"] for line in narrow)
    assert any(line.split()[-3:] == ["base", "->", "style@1"] for line in narrow)
    assert max(map(len, narrow)) <= 40


def screen(command: list[str], columns: int) -> list[str]:
    """Run a command on a terminal of so many columns; return its lines."""
    import fcntl
    import pty
    import re
    import struct
    import subprocess
    import termios

    person, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR")}
    running = subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment | {"TERM": "xterm"}
    )
    os.close(terminal)
    text = b""
    try:
        while data := os.read(person, 65536):
            text += data
    except OSError:
        pass  # Linux's way to say that the other end is closed
    assert running.wait(timeout=60) == 0
    os.close(person)
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text.decode())
    return [line.rstrip() for line in plain.replace("\r", "").split("\n")]


def test_a_thousand_variants_are_listed_in_no_time(home: Path, tmp_path: Path) -> None:
    """The target is 0.3 s for the list itself; the test allows more, since it shares its processors."""
    store = Store(home)
    store.add_model(write_base(tmp_path / "base.gguf"), "base")
    store.add_adapter(write_adapter(tmp_path / "style.gguf"), "style", base="base")
    folder = home / "variants/llama"
    folder.mkdir(parents=True)
    for number in range(1000):
        (folder / f"v{number}.json").write_text(acme(f"v{number}").model_dump_json(exclude_unset=True))
    list_rows(home, None)
    began = time.perf_counter()
    rows = list_rows(home, None)
    assert time.perf_counter() - began < 1.5
    assert len(rows) == 1000
    assert all(row.error is None for row in rows)
