"""The spec: one JSON document, as text or in a file; what is wrong is said in one line."""

import json

import pytest

from fourcells.spec import REQUIRED, read_spec, timing_spec


def message(function, *arguments):
    with pytest.raises(ValueError) as error:
        function(*arguments)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_text_and_file_give_the_same_spec(spec, tmp_path):
    text = json.dumps(spec)
    file = tmp_path / "spec ü.json"
    file.write_text(text)
    assert timing_spec(text, None) == timing_spec(f"  {text}", None) == spec
    assert timing_spec(str(file), None) == spec


def test_missing_file_is_named():
    assert message(read_spec, "no/such.json") == "--spec: No such file or directory: no/such.json"


def test_folder_is_no_spec(tmp_path):
    assert message(read_spec, str(tmp_path)) == f"--spec: Is a directory: {tmp_path}"


def test_broken_json_is_told_where_it_breaks():
    assert message(read_spec, '{"engine": }').startswith(
        "--spec: not a JSON document: Expecting value: line 1 column 12"
    )


def test_file_that_is_no_text_is_refused_under_its_option(tmp_path):
    file = tmp_path / "spec.json"
    file.write_bytes(b"\xff\xfe{}")
    assert message(read_spec, str(file)).startswith("--spec:")


@pytest.mark.parametrize("document", ["[]", "3", '"text"', "null"])
def test_other_json_than_an_object_is_refused(tmp_path, document):
    file = tmp_path / "spec.json"
    file.write_text(document)
    assert message(read_spec, str(file)) == "--spec: not a JSON object"


@pytest.mark.parametrize("key", REQUIRED)
def test_missing_key_is_named(spec, key):
    del spec[key]
    assert message(timing_spec, json.dumps(spec), None) == f"--spec: missing {key}"


def test_all_missing_keys_are_named_at_once():
    assert message(timing_spec, "{}", 1) == f"--spec: missing {', '.join(REQUIRED)}"


@pytest.mark.parametrize(
    ("argument", "own", "repeat"), [(None, None, 1), (None, 4, 4), (2, 4, 2), (2, None, 2)]
)
def test_repeat_of_the_command_line_wins(spec, argument, own, repeat):
    del spec["repeat"]
    if own:
        spec["repeat"] = own
    assert timing_spec(json.dumps(spec), argument)["repeat"] == repeat


def test_a_spec_of_the_config_is_whole(shipped):
    from fourcells import config as settings

    cell = settings.cells(shipped)[0]
    assert sorted(settings.spec(shipped, cell)) == sorted(REQUIRED)
