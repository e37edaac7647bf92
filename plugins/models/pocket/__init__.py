"""The bundled models: small enough to ship, trained on facts so that there is something to edit."""

from dataclasses import dataclass, field
from pathlib import Path

from edit_harness import ModelSource

FILES = Path(__file__).with_name("files")
CONTEXT = Path(__file__).with_name("context")
DATA = {
    "counterfact": "counterfact.json", "lessons": "lessons.json", "references": "references.json",
    "mend": "mend.safetensors", "mquake": "mquake.json", "rippleedits": "rippleedits.json",
    "qaedit": "qaedit.json", "text": "text.txt", "seesaw": "seesaw",
    "unke": "unke.json", "wikibigedit": "wikibigedit.json", "zsre": "zsre.json",
}  # fmt: skip


def _data(*left_out: str) -> dict[str, str]:
    return {name: str(FILES / file) for name, file in DATA.items() if name not in left_out}


@dataclass(frozen=True)
class Pocket(ModelSource):
    """The model, its second moments and its own samples in the formats of the benchmarks."""

    path: str = str(FILES)
    family: str = "pocket"
    note: str = "numbers are a demonstration: --model gpt2-xl for the benchmark"
    data: dict[str, str] = field(default_factory=_data)
    moments: str = str(FILES)
    baselines: str = str(FILES / "baselines")


@dataclass(frozen=True)
class PocketContext(Pocket):
    """The model that ties what it reads to who it is about, and knows rule-edit's rules; pocket's samples."""

    path: str = str(CONTEXT)
    family: str = "pocket-context"
    data: dict[str, str] = field(default_factory=lambda: _data("mend"))
    moments: str = str(CONTEXT)
    baselines: str = ""
