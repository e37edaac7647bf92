"""Keys of every kind of judgement, for judges that are language models."""

from edit_harness import Key, Reply

SQUARE = {"lhs": "A", "variables": {"x": "side length"}, "texts": {"right": "twice", "old": "by"}}
ASPECTS = {"sexism": "contempt of women", "anglo-centrism": "all is about England"}
ABOUT = {
    "subject": "Ada Lovelace", "property": "gender", "old": "male", "new": "female",
    "aspects": ASPECTS, "definitions": "people", "reflected": True,
}  # fmt: skip
PAIR = Reply("Ada is", " female, sexism sexism", Key("compare", " anglo-centrism", about=ABOUT))
KEYS = {
    "formula": Key("formula", "x + x", "x**2", SQUARE),
    "description": Key("description", "x + x", "x**2", SQUARE),
    "number": Key("number", "10", "25", {"unit": "cm", "steps": False}),
    "same": Key("same", "12", about={"of": "number"}),
    "match": Key("match", "Rome", "Paris", {"aliases": ["Roma"], "old_aliases": []}),
    "compare": PAIR.key,
}
