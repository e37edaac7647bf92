"""The values that a property may have, and where they lie.

They come from our own candidates.json, or from the authors' tables: fow.csv, P27_cats.csv, city_to_country.csv
and country_codes.csv.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from edit_harness import DataError
from edit_harness_plugins.inputs import Layout, fitted, json_of, text_of
from edit_harness_plugins.people import Label

from . import authors
from .files import PROPERTIES, Row

FILE = "candidates.json"
SHOWN = 10
"""How many values of a category are listed."""
GENDERS: Mapping[str, str] = {"Q6581097": "male", "Q6581072": "female"}


class Given(Layout, forbid_unknown_fields=True):
    """What candidates.json may have."""

    P101: tuple[Label, ...] = ()
    P103: tuple[Label, ...] = ()
    P21: tuple[Label, ...] = ()
    P27: tuple[Label, ...] = ()
    P19: tuple[Label, ...] = ()
    continents: dict[str, str] = {}  # noqa: RUF012


@dataclass(frozen=True)
class Values:
    """What is known of the values of each property."""

    candidates: Mapping[str, Sequence[str]]
    """Labels by property, each once, in the order of the tables."""
    continents: Mapping[str, Mapping[str, str]]
    """The continent of a label, by property."""
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The label of an id of Wikidata, by property; empty where only labels are known."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """The category of a field of work, such as ``science``."""

    def by_category(self, edits: Counter[tuple[str, str]]) -> dict[str, list[Row]]:
        """Return each property's values by category or continent: the paper's Tables 16 to 18 are of these.

        They are counted by id, and those of most edits come first: ``edits`` counts these by property and value.
        """
        return {
            f"attributes by category, {PROPERTIES[prop]} (Tables 16 to 18)": self._listed(
                prop, edits
            )
            for prop in ("P101", "P27", "P19")
        }

    def _listed(self, prop: str, edits: Counter[tuple[str, str]]) -> list[Row]:
        of = self.fields if prop == "P101" else self.continents.get(prop, {})
        labels = sorted(self.candidates.get(prop, ()), key=lambda label: -edits[prop, label])
        ids = Counter(self.labels.get(prop, {}).values())
        if not (of and labels):
            return [{"which": "not known: the authors' table is not beside the data"}]
        found: dict[str, list[str]] = {}
        for label in labels:
            found.setdefault(of.get(label, "none"), []).append(label)
        return [
            {"category": name, "values": sum(ids[each] or 1 for each in own), "which": _first(own)}
            for name, own in sorted(found.items())
        ]


def _first(labels: Sequence[str]) -> str:
    more = f" and {len(labels) - SHOWN} more" if len(labels) > SHOWN else ""
    return f"{', '.join(labels[:SHOWN])}{more}"


def known(folder: Path) -> Values:
    """Return what the files of a folder say; a property that has none is left out.

    What candidates.json says of a property goes before the authors' tables; there are two genders
    in any case. Raises `DataError` for a file that is not of the layout.
    """
    labels, continents, fields = authors.values_in(folder)
    labels = {"P21": dict(GENDERS), **labels}
    candidates = {name: tuple(dict.fromkeys(own.values())) for name, own in labels.items()}
    if (path := folder / FILE).is_file():
        said = _read(path)
        where = said.pop("continents", {})
        candidates |= {name: tuple(dict.fromkeys(own)) for name, own in said.items()}
        continents = {name: {**continents.get(name, {}), **where} for name in PROPERTIES}
    return Values(candidates, continents, labels, fields)


def _read(path: Path) -> dict[str, Any]:
    try:
        return cast("dict[str, Any]", fitted(json_of(path, text_of(path)), Given))
    except ValueError as error:
        raise DataError(
            f"{path} is not of the layout: {error}",
            f'{{"P101": ["physics", ...], "continents": {{"France": "Europe", ...}}}}, with '
            f"properties among {', '.join(PROPERTIES)}",
        ) from None
