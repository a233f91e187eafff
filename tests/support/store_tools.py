"""Makes artifacts and stores for tests, and tells whether a store is in order."""

from __future__ import annotations

import json
from pathlib import Path

from fake_backend import write_adapter, write_base
from safetensors_writer import lora_tensors, peft_config, peft_folder
from warmline.registry import Store
from warmline.store.blobs import digest_of
from warmline.variant import AdapterSpec, BaseRef, VariantFile

PEFT_MODULE = "model.layers.0.self_attn.q_proj"


def filled(home: Path, work: Path) -> Store:
    """Give a store with a copied base `base`, an adapter `style` and a variant `acme` of the two."""
    store = Store(home)
    store.add_model(write_base(work / "base.gguf"), "base", copy=True)
    store.add_adapter(write_adapter(work / "style.gguf"), "style", base="base")
    store.add_variant(acme())
    return store


def acme(name: str = "acme", **changes: object) -> VariantFile:
    return VariantFile.model_validate(
        {"name": name, "base": BaseRef(name="base"), "adapters": (AdapterSpec(name="style"),), **changes}
    )


def peft(folder: Path, seed: int = 0, **config: object) -> Path:
    """Write a PEFT adapter that fits the tiny llama base of `tiny_base`."""
    tensors = lora_tensors({PEFT_MODULE: (16, 16)}, seed=seed)
    return peft_folder(folder, tensors, peft_config(base_model_name_or_path="acme/tiny", **config))


def openvino_xml(*modules: str, source: str = "") -> str:
    """Write a network whose MatMuls are `modules`, 16 to 16 wide; `source` is what it says that it was made of."""
    port = "<port><dim>16</dim><dim>16</dim></port>"
    layers = "".join(
        f'<layer name="__module.{module}/ov_ext::linear/MatMul" type="MatMul"><input>{port}{port}</input></layer>'
        for module in modules
    )
    marks = f'<rt_info><warmline><source_digest value="{source}"/></warmline></rt_info>' if source else ""
    return f"<net><layers>{layers}</layers>{marks}</net>"


def openvino_model(folder: Path, weights: bytes = b"weights", xml: str = openvino_xml(PEFT_MODULE)) -> Path:
    """Write what looks like an exported model that `peft` fits; nothing here runs it."""
    folder.mkdir(parents=True)
    (folder / "openvino_model.xml").write_text(xml)
    (folder / "openvino_model.bin").write_bytes(weights)
    (folder / "config.json").write_text("{}")
    for part in ("tokenizer", "detokenizer"):
        (folder / f"openvino_{part}.xml").write_text("<net/>")
        (folder / f"openvino_{part}.bin").write_bytes(b"t")
    (folder / "tokens").mkdir()
    (folder / "tokens/vocabulary.txt").write_bytes(b"t")
    return folder


def state(home: Path) -> dict[str, str]:
    """Give the content of everything that counts, by path; locks, caches and what is being built do not."""
    found = {}
    for path in sorted(home.rglob("*")):
        inner = path.relative_to(home)
        if path.is_file() and inner.parts[0] not in ("staging", "cache") and inner.name not in LOCKS:
            found[inner.as_posix()] = _steady(path)
    return found


LOCKS = ("store.lock", "store.holder", "trust.json.lock")


def _steady(path: Path) -> str:
    if path.suffix != ".json":
        return path.read_bytes().hex()[:64] + str(path.stat().st_size)
    data = json.loads(path.read_text())
    for entry in (data, *(value for value in data.values() if isinstance(value, dict))):
        entry.pop("installed_at", None)
        entry.pop("approved_at", None)
    return json.dumps(data, sort_keys=True)


def check(store: Store) -> None:
    """What holds of a store at any moment: what is listed is whole, is what its record says, and can be resolved."""
    for model in store.list_models():
        assert model.error is None, model
        assert store.verify_model(model.name, model.backend).ok
    for adapter in store.list_adapters():
        assert adapter.error is None, adapter
        assert store.verify_adapter(adapter.name, adapter.backend).ok
    for variant in store.list_variants():
        assert variant.error is None, variant
        store.resolve(f"{variant.backend}/{variant.name}")
    for digest, path in store.places.blobs.all():
        assert digest_of(path) == digest
        assert path.stat().st_mode & 0o777 == 0o600
