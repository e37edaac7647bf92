"""Where two values differ."""

from builders import IDENTITY, with_entries

from edit_harness.folder.changes import ABSENT, Change, changes, identities, short


def test_fields_are_named_by_their_path():
    one, two = {"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": 1, "c": 3}, "e": 0}
    assert list(changes(one, two)) == [
        Change("a.c", 2, 3),
        Change("d", [1], ABSENT),
        Change("e", ABSENT, 0),
    ]


def test_code_is_compared_package_by_package_and_fields_stand_last():
    one, two = (
        with_entries(IDENTITY, editor={"fields": {"lr": lr}}, code=code)
        for lr, code in ((1, [["mine", "a"], ["ours", "b"]]), (2, [["ours", "c"], ["mine", "a"]]))
    )
    assert identities(one, two) == [
        Change("code.ours", "b", "c"),
        Change("editor.fields.lr", 1, 2),
    ]
    assert identities(one, one) == []


def test_digests_are_shown_by_their_beginnings():
    assert short("0123456789abcdef" * 4) == "0123456789ab"
    assert (short("a b"), short(["é"])) == ("a b", '["é"]')
