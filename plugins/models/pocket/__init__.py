"""The bundled model: small enough to ship, trained on facts so that there is something to edit."""

from dataclasses import dataclass, field
from pathlib import Path

from edit_harness import ModelSource

FILES = Path(__file__).with_name("files")


@dataclass(frozen=True)
class Pocket(ModelSource):
    """The model, its second moments and its own samples in the formats of the benchmarks."""

    path: str = str(FILES)
    family: str = "pocket"
    note: str = "numbers are a demonstration: --model gpt2-xl for the benchmark"
    data: dict[str, str] = field(
        default_factory=lambda: {
            "counterfact": str(FILES / "counterfact.json"),
            "lessons": str(FILES / "lessons.json"),
            "references": str(FILES / "references.json"),
            "mend": str(FILES / "mend.safetensors"),
            "mquake": str(FILES / "mquake.json"),
            "rippleedits": str(FILES / "rippleedits.json"),
            "text": str(FILES / "text.txt"),
            "seesaw": str(FILES / "seesaw"),
            "zsre": str(FILES / "zsre.json"),
        }
    )
    moments: str = str(FILES)
    baselines: str = str(FILES / "baselines")
