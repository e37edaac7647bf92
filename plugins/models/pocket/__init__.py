"""The bundled model: small enough to ship, trained on facts so that there is something to edit."""

from dataclasses import dataclass, field
from pathlib import Path

from edit_harness import ModelSource

FILES = Path(__file__).with_name("files")
DATA = {
    "counterfact": "counterfact.json", "lessons": "lessons.json", "references": "references.json",
    "mend": "mend.safetensors", "mquake": "mquake.json", "rippleedits": "rippleedits.json",
    "text": "text.txt", "seesaw": "seesaw", "zsre": "zsre.json",
}  # fmt: skip


@dataclass(frozen=True)
class Pocket(ModelSource):
    """The model, its second moments and its own samples in the formats of the benchmarks."""

    path: str = str(FILES)
    family: str = "pocket"
    note: str = "numbers are a demonstration: --model gpt2-xl for the benchmark"
    data: dict[str, str] = field(
        default_factory=lambda: {n: str(FILES / f) for n, f in DATA.items()}
    )
    moments: str = str(FILES)
    baselines: str = str(FILES / "baselines")
