"""A copy of the bundled model that takes chats: it can be asked, and it cannot judge."""

import json
import shutil
from pathlib import Path

from edit_harness_plugins.models.pocket import FILES

NEEDED = ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json")
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"


def chatty_pocket(folder: Path) -> Path:
    """Write the model with a chat template into a new folder, and return it."""
    folder.mkdir()
    for name in NEEDED:
        shutil.copy(FILES / name, folder / name)
    settings = json.loads((FILES / "tokenizer_config.json").read_text(encoding="utf-8"))
    text = json.dumps(settings | {"chat_template": TEMPLATE})
    (folder / "tokenizer_config.json").write_text(text, encoding="utf-8")
    return folder
