"""Tags of people: a tag file that is right or not, and how `prepare` makes one."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
from click.testing import CliRunner
from support.seesaw_data import folder, write

from edit_harness import DataError, Making
from edit_harness.cli import main
from edit_harness_plugins.people import Subject
from edit_harness_plugins.tasks.seesaw import candidates, gather
from edit_harness_plugins.tasks.seesaw.subjects import Subjects, read
from edit_harness_plugins.tasks.seesaw.task import SeesawCF


def test_spellings_are_one_if_only_case_or_white_space_differs(tmp_path):
    path = write(tmp_path / "tags.json", {
        "Q3": {"gender": "Male", "race": [" Black", "black"], "geo": ["Western Europe"]},
        "Q4": {"gender": " female", "race": ["BLACK "], "geo": ["Western  Europe", "Asia"],
               "values": {"P101": [" law ", "law"]}},
    })  # fmt: skip
    found = read(path)
    assert found.by_id == {
        "Q3": Subject("", "male", ("Black",), ("Western Europe",)),
        "Q4": Subject("", "female", ("Black",), ("Western Europe", "Asia"), {"P101": ("law",)}),
    }


def test_values_of_a_name_that_several_have():
    one, other = Subject("Ada", values={"P101": ("physics",)}), Subject("Ada")
    assert Subjects({"1": one, "2": one}).values("Ada", "P101") == ("physics",)
    assert Subjects({"1": one, "2": other}).values("Ada", "P101") == ()
    assert Subjects({"1": one}).values("Bob", "P101") == ()


ETHNIC = "Code,Frequency,Name,Geo Group,Racial Group\n"


@pytest.fixture
def tables(tmp_path):
    """Write tables in the authors' layout: a group in two tables, and spelled in two ways; row numbers."""
    path = tmp_path / "tables"
    path.mkdir()
    texts = {
        "P101_ethnic_groups.csv": ETHNIC + "Q10,5,Americans,North America,\nQ11,4,Jews,,Jewish\n",
        "P103_ethnic_groups.csv": ETHNIC
        + "Q10,3,Americans,North America,white\r\nQ12,2,Black people,Africa,black\r\n",
        "fow.csv": ",Code,String\n0,Q413,physics\n1,Q2329,chemistry\n",
        "P27_cats.csv": "Q142,France,Europe\nQ114,Kenya ,Africa\nQ99,statelessness,None\n",
        "city_to_country.csv": "Q90,France,Q60,New York City\nQ60,United States,Q90,Paris\n"
        "Q3870,Kenya,,\n",
        "country_codes.csv": "France,Q142,Europe\nUnited States,Q30,North America\n",
    }
    for name, text in texts.items():
        (path / name).write_bytes(text.encode())
    people = {
        "Q1": ("Ana", {"P21": ["Q6581072"], "P172": ["Q10", "Q11"], "P101": ["Q413", "Q7"],
                       "P27": ["Q142"], "P19": ["Q60"], "P18": ["Ana.jpg"]}),
        "Q2": ("Bob", {"P21": ["Q6581097", "Q6581072"], "P570": ["+1990-01-01T00:00:00Z"]}),
        "Q3": ("Cid", {"P21": ["Q6581097"], "P172": ["Q12", "Q404"], "P1971": [{"amount": "+2"}]}),
        "Q4": ("Dee", {"P21": ["Q1097630"]}),
    }  # fmt: skip
    said = {i: {"name": name, "properties": own} for i, (name, own) in people.items()}
    write(path / "P101_subject_info.json", said)
    return path


TAGS = {
    "Q1": {
        "name": "Ana", "gender": "female", "race": ["white", "Jewish"], "geo": ["North America"],
        "dead": False, "values": {"P101": ["physics"], "P27": ["France"], "P19": ["New York City"]},
    },
    "Q2": {"name": "Bob", "gender": "", "race": [], "geo": [], "dead": True, "values": {}},
    "Q3": {
        "name": "Cid", "gender": "male", "race": ["Black"], "geo": ["Africa"], "dead": False,
        "values": {},
    },
    "Q4": {"name": "Dee", "gender": "", "race": [], "geo": [], "dead": False, "values": {}},
}  # fmt: skip
"""What the tables say, by hand."""


def test_the_authors_tables_become_values_and_places(tables):
    known = candidates.known(tables)
    assert known.candidates == {
        "P21": ("male", "female"),
        "P101": ("physics", "chemistry"),
        "P27": ("France", "Kenya", "statelessness"),
        "P19": ("New York City", "Paris"),
    }
    assert known.continents == {
        "P27": {"France": "Europe", "Kenya": "Africa"},
        "P19": {"New York City": "North America", "Paris": "Europe"},
    }


def test_our_own_candidates_go_before_the_tables(tables):
    write(tables / "candidates.json", {"P101": ["art"], "continents": {"Kenya": "Here"}})
    known = candidates.known(tables)
    assert known.candidates["P101"] == ("art",)
    assert known.candidates["P27"] == ("France", "Kenya", "statelessness")
    assert known.continents["P27"] == {"France": "Europe", "Kenya": "Here"}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("P27_cats.csv", b"Q1,France,Europe\nQ2,Kenya\n", ":2: has 2 cells, expected 3"),
        ("fow.csv", b"\xff\xfe", "is no table in CSV"),
    ],
)
def test_a_table_that_is_not_of_the_layout(tables, name, text, said):
    (tables / name).write_bytes(text)
    with pytest.raises(DataError) as caught:
        candidates.known(tables)
    assert caught.value.cause.startswith(f"{tables / name}")
    assert said in caught.value.cause


def made(task, folder, data, lines=None):
    """Make the tags, and return them."""
    report = (lines if lines is not None else []).append
    assert task.make(Making(folder, data=data, report=report))
    path = folder / "subjects.json"
    read(path)
    return json.loads(path.read_bytes())


def test_tags_from_the_authors_tables(tables, tmp_path):
    lines = []
    assert made(SeesawCF(), tmp_path / "made", str(tables), lines) == TAGS
    assert lines == [f"saved    {tmp_path / 'made' / 'subjects.json'}: 4 people"]


def test_what_two_files_say_of_a_person_is_put_together(tables, tmp_path):
    more = {"Q1": {"name": "Ana", "properties": {"P21": ["Q6581097"], "P101": ["Q2329", "Q413"]}}}
    write(tables / "P103_subject_info.json", more)
    tags = made(SeesawCF(), tmp_path, str(tables))
    assert tags["Q1"]["gender"] == ""
    assert tags["Q1"]["values"]["P101"] == ["physics", "chemistry"]


EDITED = """,Name,P91,P101,P21,P172
0,Prop Name,orientation,field of work,gender,ethnic group
1,Ana,N/A,"Q2329, Q413",N/A,N/A
2,Eva,Q1,Q7,Q6581072,Q12
"""


def test_the_authors_tables_of_edited_people_have_names_alone(tables, tmp_path):
    """They lie in a folder below; who has an id by the other files is told of there."""
    (tables / "eval").mkdir()
    (tables / "eval" / "all_subj.csv").write_text(EDITED)
    tags = made(SeesawCF(), tmp_path, str(tables))
    assert tags["Q1"]["values"]["P101"] == ["physics", "chemistry"]
    assert tags["Eva"] == {
        "name": "Eva", "gender": "female", "race": ["Black"], "geo": ["Africa"], "dead": False,
        "values": {},
    }  # fmt: skip
    (tables / "eval" / "all_subj.csv").write_text("Code,P21\n")
    with pytest.raises(DataError, match=r"all_subj.csv has no column Name"):
        made(SeesawCF(), tmp_path, str(tables))


@pytest.mark.parametrize("said", [[], {"Q1": {"name": "Ana"}}])
def test_subjects_that_are_not_of_the_layout(tables, tmp_path, said):
    write(tables / "P101_subject_info.json", said)
    with pytest.raises(DataError, match="P101_subject_info"):
        made(SeesawCF(), tmp_path, str(tables))
    assert not (tmp_path / "subjects.json").exists()


def test_a_folder_without_the_authors_files(tmp_path):
    with pytest.raises(DataError, match="has no file"):
        made(SeesawCF(), tmp_path, str(tmp_path))
    with pytest.raises(DataError, match="there is no folder"):
        made(SeesawCF(), tmp_path, str(tmp_path / "nowhere"))
    assert not SeesawCF().make(Making(tmp_path))


def entity(value):
    return {"type": "uri", "value": f"http://www.wikidata.org/entity/{value}"}


def binding(person, prop, value, title=""):
    """Return a row as the query service gives it."""
    date = value.startswith("+")
    row = {
        "person": entity(person),
        "property": {"type": "uri", "value": f"http://www.wikidata.org/prop/direct/{prop}"},
        "value": {"type": "literal", "value": value} if date else entity(value),
    }
    titled = {"title": {"type": "literal", "xml:lang": "en", "value": title}} if title else {}
    return row | titled


RECORDED = [
    binding("Q3", "P21", "Q6581097"),
    binding("Q3", "P172", "Q12"),
    binding("Q4", "P21", "Q6581072"),
    binding("Q4", "P570", "+1990-01-01T00:00:00Z"),
]
OF_TITLES = [
    binding("Q900", "P101", "Q413", "Person 0"),
    binding("Q900", "P21", "Q6581072", "Person 0"),
]


@pytest.fixture
def server(monkeypatch, tmp_path):
    """Answer queries for ids with `RECORDED`, and those for titles with `OF_TITLES`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            (query,) = parse_qs(urlsplit(self.path).query)["query"]
            told.append((query, self.headers["User-Agent"]))
            rows = OF_TITLES if "?title" in query else RECORDED
            own = [row for row in rows if "title" in row
                   or f"wd:{row['person']['value'].rpartition('/')[2]} " in query]  # fmt: skip
            body = bodies.pop(0) if bodies else json.dumps({"results": {"bindings": own}}).encode()
            self.send_response(statuses.pop(0) if statuses else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    told, bodies, statuses = [], [], []
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True).start()
    for name in ("EDIT_HARNESS_OFFLINE", "HF_HUB_OFFLINE", "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(gather.VARIABLE, f"http://127.0.0.1:{httpd.server_port}/sparql")
    Handler.told, Handler.bodies, Handler.statuses = told, bodies, statuses
    yield Handler
    httpd.shutdown()
    httpd.server_close()


@pytest.fixture
def data(tmp_path):
    return folder(tmp_path / "data", ["P21_P101"], tags=None, candidates=None)


def test_tags_from_wikidata(server, data, tables, tmp_path, monkeypatch):
    """Of six people on whom prompts are, and two who are edited, three are known."""
    monkeypatch.setattr(gather, "BATCH", 5)
    task = SeesawCF(str(data))
    tags = made(task, tmp_path / "made", f"wikidata:{tables}")
    assert set(tags) == {"Q3", "Q4", "Q5", "Q9", "Q10", "Q11", "Q900"}
    empty = {"gender": "", "race": [], "geo": [], "dead": False, "values": {}}
    assert tags["Q3"] == empty | {
        "name": "Person 3", "gender": "male", "race": ["Black"], "geo": ["Africa"],
    }  # fmt: skip
    assert tags["Q4"] == empty | {"name": "Person 4", "gender": "female", "dead": True}
    assert tags["Q5"] == empty | {"name": "Person 5"}
    # Of Person 0 only the title of the article was known.
    assert tags["Q900"] == empty | {
        "name": "Person 0", "gender": "female", "values": {"P101": ["physics"]},
    }  # fmt: skip
    queries = [query for query, _ in server.told]
    asked = "wd:Q3 wd:Q4 wd:Q5 wd:Q9 wd:Q10", "wd:Q11", '"Person 0"@en "Person 1"@en'
    assert [ids in query for ids, query in zip(asked, queries, strict=True)] == [True] * 3
    assert {agent for _, agent in server.told} == {gather.AGENT}


def test_what_was_answered_is_not_asked_again(server, data, tables, tmp_path, monkeypatch):
    monkeypatch.setattr(gather, "BATCH", 5)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    server.statuses[:] = [200, 404, 404, 404, 404]
    with pytest.raises(DataError) as caught:
        made(SeesawCF(str(data)), tmp_path / "made", f"wikidata:{tables}")
    assert caught.value.cause.startswith("a reply of Wikidata could not be downloaded: http://127")
    assert "query=" not in caught.value.cause
    assert len(server.told) == 5
    for _ in range(2):
        made(SeesawCF(str(data)), tmp_path / "made", f"wikidata:{tables}")
        assert len(server.told) == 7


def test_a_reply_that_is_not_understood_is_kept_and_asked_for_again(server, data, tables, tmp_path):
    server.bodies[:] = [b'{"results": []}']
    task = SeesawCF(str(data))
    with pytest.raises(DataError, match="is not understood") as caught:
        made(task, tmp_path / "made", f"wikidata:{tables}")
    (kept,) = (tmp_path / "made" / "replies").glob("*.bad")
    assert str(kept) in caught.value.remedy
    assert "Q900" in made(task, tmp_path / "made", f"wikidata:{tables}")


def test_without_tables_gender_and_death_are_known(server, data, tmp_path):
    lines = []
    tags = made(SeesawCF(str(data)), tmp_path / "made", "wikidata", lines)
    assert (tags["Q3"]["gender"], tags["Q3"]["race"], tags["Q4"]["dead"]) == ("male", [], True)
    assert lines[:2] == [
        "wikidata asked for 6 people by id, and 2 by name",
        f"{data} has no *_ethnic_groups.csv, so nobody has race or region",
    ]


def test_people_who_are_made_up_are_not_asked_for(server, tmp_path):
    data = folder(tmp_path / "data", ["P101"])
    for path in data.glob("seesaw_*.json"):
        path.write_text(path.read_text().replace('"Q', '"person-'), encoding="utf-8")
    with pytest.raises(DataError, match="is on somebody with an id of Wikidata"):
        made(SeesawCF(str(data)), tmp_path / "made", "wikidata")
    assert not server.told


def test_the_command_makes_tags_that_a_run_finds_and_says_of_what(
    tables, data, monkeypatch, tmp_path
):
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path / "cache"))
    arguments = ["prepare", "--task", "seesaw-cf", "--task-args", f"data={data}"]
    asked, made = (
        CliRunner().invoke(main, arguments + more) for more in ([], ["--data", str(tables)])
    )
    assert (asked.exit_code, made.exit_code) == (0, 0), made.output
    assert "2 cases of data" in asked.stdout
    assert "cases of" not in made.stdout, "they are not what was asked for"
    case = next(iter(SeesawCF(str(data)).cases()))
    tagged = next(probe for probe in case.probes if probe.tags.get("subject") == "Q3")
    assert tagged.tags == {"subject": "Q3", "gender": "male", "race": "Black", "geo": "Africa"}
