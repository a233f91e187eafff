"""What a person sets once, for all workspaces: `config.json` in the store (`warmline config`)."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field

from .errors import ConfigError
from .filemodel import BACKENDS, Backend, FileModel, load_file, parse

SETTINGS_FILE: Final = "config.json"
_FALLBACK: Final = "default"
_MOST_PIPELINES: Final = 16
_log = logging.getLogger(__name__)

Folder = Annotated[str, Field(min_length=1, max_length=4096)]


class Settings(FileModel):
    """`config.json` in the store. Everything that is absent has its default; the engine reads it when it starts."""

    default_variant: Annotated[str, Field(pattern=r"^((llama|openvino)/)?[a-z0-9][a-z0-9._-]{0,63}$")] | None = Field(
        default=None,
        alias="default-variant",
        description="Variant of documents outside a workspace; unset: the one called `default`, if there is one.",
    )
    backend: Backend = Field(
        default="llama", description="Which one runs a variant that both have under one name: `llama` or `openvino`."
    )
    download_path: Folder | None = Field(
        default=None,
        alias="download-path",
        description="Folder of unfinished downloads; unset: `downloads` in the store.",
    )
    snapshot_path: Folder | None = Field(
        default=None, alias="snapshot-path", description="Folder of KV on disk; unset: `cache/kv` in the store."
    )
    snapshot_disk_mib: Annotated[int, Field(ge=0, le=1 << 20)] = Field(
        default=1024, alias="snapshot-disk-mib", description="Most MiB of KV on disk; 0 keeps none."
    )
    snapshot_ram_mib: Annotated[int, Field(ge=0, le=1 << 20)] = Field(
        default=512, alias="snapshot-ram-mib", description="Most MiB of KV in RAM beside the live contexts."
    )
    live_contexts: Annotated[int, Field(ge=1, le=64)] = Field(
        default=4, alias="live-contexts", description="Contexts that stay alive, one an identity."
    )
    resident_bases: Annotated[int, Field(ge=1, le=16)] = Field(
        default=2, alias="resident-bases", description="Bases in memory at most; memory may allow fewer."
    )
    warm_pipelines: Annotated[int, Field(ge=0, le=_MOST_PIPELINES)] = Field(
        default=0,
        alias="warm-pipelines",
        description="OpenVINO identities in memory at most; 0: one, or as many as `pipeline-memory-mib` holds.",
    )
    pipeline_memory_mib: Annotated[int, Field(ge=0, le=1 << 24)] = Field(
        default=0,
        alias="pipeline-memory-mib",
        description="Most MiB that they take together, one in any case; 0: three quarters of the machine's memory.",
    )
    engine_idle_seconds: Annotated[int, Field(ge=0, le=10**7)] = Field(
        default=900, alias="engine-idle-seconds", description="The engine leaves after so long without use; 0: never."
    )
    metrics_port: Annotated[int, Field(ge=0, le=65535)] = Field(
        default=0, alias="metrics-port", description="Port of the Prometheus endpoint on 127.0.0.1; 0: none."
    )

    log_prompts: bool = Field(
        default=False,
        strict=True,
        alias="log-prompts",
        description="Whether requests and answers are in the engine's log, and your code with them: `true` or `false`.",
    )

    def snapshots(self, home: Path) -> Path:
        """Return the folder of KV on disk."""
        return Path(self.snapshot_path).expanduser() if self.snapshot_path else home / "cache" / "kv"

    def downloads(self, home: Path) -> Path:
        """Return the folder of unfinished downloads."""
        return Path(self.download_path).expanduser() if self.download_path else home / "downloads"

    def pipelines(self) -> tuple[int, int | None]:
        """Return how many OpenVINO pipelines stay in memory at most, and how many bytes they may take together."""
        from .capacity import default_budget

        if self.pipeline_memory_mib:
            return self.warm_pipelines or _MOST_PIPELINES, self.pipeline_memory_mib << 20
        return self.warm_pipelines or 1, default_budget()

    def by_name(self) -> dict[str, Any]:
        """Return all settings by the names that people type."""
        return {name: getattr(self, field) for name, field in setting_names().items()}


def as_typed(value: object) -> str:
    """Return a setting's value as people type it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def setting_names() -> dict[str, str]:
    """Return the names that people type, and the fields they mean."""
    fields = Settings.model_fields.items()
    return {info.alias or field: field for field, info in fields if not (info.alias or "").startswith("$")}


def settings_file(home: Path) -> Path:
    """Return where the settings are."""
    return home / SETTINGS_FILE


def load_settings(home: Path) -> Settings:
    """Read the settings; all defaults where there is no file.

    Raises
    ------
    ConfigError
        As `filemodel.load_file`, but for a missing file.
    """
    try:
        return load_file(settings_file(home), Settings)
    except ConfigError as error:
        if error.code == "config.missing":
            return Settings()
        raise


def usable_settings(home: Path) -> Settings:
    """As `load_settings`; a file that cannot be read costs its settings, not the engine. `doctor` says so."""
    try:
        return load_settings(home)
    except ConfigError as error:
        _log.warning("the settings are not used: %s", error)
        return Settings()


def change_setting(home: Path, key: str, value: str | None) -> Settings:
    """Set one setting to what a person typed, or with None back to its default; return all of them.

    Raises
    ------
    ConfigError
        ``config.unknown_field``, ``config.field``; as `load_settings` for a file that cannot be read.
    StoreError
        As `changes.changing`.
    """
    from .digests import write_atomically
    from .store import changes  # what writes is not loaded to read

    file = settings_file(home)
    field = setting_names().get(key)
    if field is None:
        known = ", ".join(setting_names())
        message, remedy = f"there is no setting called `{key[:80]}`", f"Settings: {known}"
        raise ConfigError(message, code="config.unknown_field", file=str(file), field=key[:80], remedy=remedy)
    with changes.changing(home, f"config set {key}"):
        data = load_settings(home).model_dump(mode="json", by_alias=True, exclude_unset=True)
        data.pop(key, None)
        if value is not None:
            data[key] = _typed(field, value)
        text = json.dumps(data, indent=2, sort_keys=True) + "\n"
        settings = parse(text, Settings, str(file))
        write_atomically(file, text.encode())
    return settings


def _typed(field: str, value: str) -> int | str:
    """A number or a truth where the field takes those alone; other text is for the field's own check to refuse."""
    annotation = Settings.model_fields[field].annotation
    if annotation is bool and value in ("true", "false"):
        return value == "true"
    takes_numbers = annotation is int
    digits = value.strip()
    return int(digits) if takes_numbers and digits.isascii() and digits.lstrip("-").isdigit() else value


def default_variant(home: Path) -> str | None:
    """Return which variant documents without a workspace get: the setting, else `default` if there is such a variant.

    Raises
    ------
    ConfigError
        As `load_settings`.
    """
    chosen = load_settings(home).default_variant
    if chosen is not None:
        return chosen
    there = any((home / "variants" / backend / f"{_FALLBACK}.json").is_file() for backend in BACKENDS)
    return _FALLBACK if there else None


__all__ = [
    "Settings",
    "as_typed",
    "change_setting",
    "default_variant",
    "load_settings",
    "setting_names",
    "settings_file",
    "usable_settings",
]
