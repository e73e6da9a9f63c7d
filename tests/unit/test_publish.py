"""`make publish` and `make published`: all or nothing, nobody's names, the same bytes again."""

from __future__ import annotations

import base64
import getpass
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import precise
import publish
import published
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import synthetic
import tables
from synthetic import find

from fourcells import anonymous
from fourcells import publish as library
from fourcells import published as folders
from fourcells.anonymous import Machine, clean, clean_metadata, clean_table, gather
from fourcells.report import published_notice
from fourcells.report.catalogue import speaking
from fourcells.report.data import make_data

ROOT = Path(__file__).parents[2]
HERE = Machine(["bobs-laptop.lan"], ["robert"], ["/home/robert", "/home/robert/four-cells"])
BOOT = "9142781c-f872-4fde-aeea-eb48c64eae0b"
ORIGIN = {"host": "alice-box.example.org", "boot": BOOT, "started": "2026-11-29T14:00:00+00:00"}
ORIGIN["session"] = f"{ORIGIN['host']}/{BOOT}/04ce5e6d9a89"
WEIGHTS = "/home/alice/my models/qwen"
# Parts of names that must be in no published file, in lower case.
SECRET = ["alice", "example.org", "zetahost", BOOT, "04ce5e6d9a89", "5ec0nd", "carol"]
OF_PUBLISHER = ["bobs-laptop", "robert"]
SECRET += ["/home", "my models", "four-cells", "/scratch", *OF_PUBLISHER]


def names(*texts, kept=(), **origin):
    metadata = {"provenance": ORIGIN | origin, "texts": texts, "spec": {"model": {"path": WEIGHTS}}}
    return gather([metadata], [], HERE, kept)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("alice-box.example.org", "host A"),
        ("its host is ALICE-BOX, not bobs-laptop", "its host is host A, not host B"),
        (ORIGIN["session"], "session 1"),
        (f"since {BOOT}", "since boot 1"),
        ("seen by alice and by robert_2", "seen by user and by user_2"),
        ("malice and roberta", "malice and roberta"),
        ("read /scratch/carol/a.parquet: too short.", "read path 2: too short."),
        ('"/scratch/carol/b" to "/scratch/carol/a.parquet"', '"path 3" to "path 2"'),
        (f'from "{WEIGHTS}", its spec', 'from "path 1", its spec'),
        ("file:///scratch/carol/b and ~/notes", "file://path 3 and ~/notes"),
        ("/home/robert", "path 4"),
        # what is no name of anybody
        ("https://docs.vllm.ai/en/latest", "https://docs.vllm.ai/en/latest"),
        ("760 tok/s, vllm / static, 1/2/3", "760 tok/s, vllm / static, 1/2/3"),
        ("results/timings/vllm/B/slots16/1.parquet", "results/timings/vllm/B/slots16/1.parquet"),
        ("/proc/pressure/cpu is not there", "/proc/pressure/cpu is not there"),
        ('"><b>/</b>', '"><b>/</b>'),
        ("the user root of this host", "the user root of this host"),
    ],
)
def test_a_text_without_names(text, expected):
    mentioned = ["/scratch/carol/b /scratch/carol/a.parquet"]
    found = names(*mentioned)
    assert clean(text, found) == expected
    assert clean(expected, found) == expected
    assert anonymous.left_in(expected, found) == []
    assert (anonymous.left_in(text, found) == []) == (text == expected)


def test_keys_lists_and_numbers():
    value = {"alice": [1, None, True, 1.5, ("on alice-box",)]}
    assert clean(value, names()) == {"user": [1, None, True, 1.5, ["on host A"]]}
    assert value["alice"][4] == ("on alice-box",)


def test_what_differed_still_differs():
    origins = [
        {
            "started": f"2026-11-29T1{hour}:00",
            "host": f"h{host}",
            "session": f"h{host}/b-{run}/{run}",
        }
        for hour, host, run in ((3, 0, 2), (1, 1, 0), (2, 0, 1), (4, 1, 0))
    ]
    metadata = [{"provenance": origin} for origin in origins]
    found = gather(metadata, [], HERE)
    told = [clean_metadata(meta, found)["provenance"] for meta in metadata]
    assert [each["session"] for each in told] == [
        "session 3",
        "session 1",
        "session 2",
        "session 1",
    ]
    assert [each["host"] for each in told] == ["host B", "host A", "host B", "host A"]
    assert [each["started"] for each in told] == [each["started"] for each in origins]


@pytest.mark.parametrize("host", ["static", "H200"])
def test_a_machine_called_like_an_engine_or_like_its_gpu(host):
    found = names(kept=["static", "H200"], host=host, session=f"{host}/{BOOT}/1")
    meta = {
        "spec": {"engine": "static"},
        "provenance": {"host": host, "gpu": "NVIDIA H200"},
        "reason": f"{host}/{BOOT}/1",
    }
    assert clean_metadata(meta, found) == {
        "spec": {"engine": "static"},
        "provenance": {"host": "host A", "gpu": "NVIDIA H200"},
        "reason": "session 1",
    }


def test_commit_dirty_flag_and_nulls_stay_and_the_folder_of_python_goes():
    origin = {"git": {"commit": "a" * 40, "dirty": True}, "executable": "/home/x/python"}
    meta = {"provenance": origin | {"host": None, "gpu": None}}
    cleaned = clean_metadata(meta, gather([meta], [], HERE))
    expected = {"git": {"commit": "a" * 40, "dirty": True}, "host": None, "gpu": None}
    assert cleaned["provenance"] == expected


def test_columns_of_text():
    table = pa.table(
        {
            "n": [1, None],
            "of alice": ["on alice-box", None],
            "lists": [["alice"], []],
            "kinds": pa.array(["alice", "x"]).dictionary_encode(),
        }
    ).replace_schema_metadata({"written by": "alice"})
    cleaned = clean_table(table, names())
    assert cleaned.to_pydict() == {
        "n": [1, None],
        "of user": ["on host A", None],
        "lists": [["user"], []],
        "kinds": ["user", "x"],
    }
    assert not cleaned.schema.metadata
    assert list(anonymous.text_columns(cleaned)) == [
        *cleaned.column_names,
        "on host A",
        "user",
        "user",
        "x",
    ]


# --- the command, on results in a folder of their own


def make_results(spoil=None, verdict=None) -> list[dict]:
    """`results/` of a run of two repeats in the working folder, with its config; its plan."""
    shutil.copy(ROOT / "config.yaml", "config.yaml")
    if verdict:
        config = Path("config.yaml").read_text(encoding="utf-8")
        for key, value in verdict.items():
            config = re.sub(rf"(?m)^  {key}:.*$", f"  {key}: {value}", config)
        Path("config.yaml").write_text(config, encoding="utf-8")
    plan = synthetic.write_timings("results", repeats=2)
    if spoil:
        spoil(plan)
    Path("results/plan.json").write_text(json.dumps(plan))
    arguments = ["--plan", "results/plan.json"]
    arguments += ["--verdict", json.dumps(precise.read_config([])["verdict"])]
    assert tables.main(arguments) == 0
    Path("results/report.html").write_text("the page that somebody looked at")
    return plan


def sums(folder: str = "results") -> dict[str, str]:
    """Every file below a folder with its content and time."""
    return {
        str(file): f"{hashlib.sha256(file.read_bytes()).hexdigest()} {file.stat().st_mtime_ns}"
        for file in sorted(Path(folder).rglob("*"))
        if file.is_file() and "published" not in file.parts
    }


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A working folder with a publishable result, and that result published as `first`."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("home")
        patch.chdir(folder)
        make_results()
        before = sums()
        assert publish.main(["--name", "first"]) == 0
        assert sums() == before
        return folder


@pytest.fixture
def there(home, monkeypatch, tmp_path):
    """A copy of it, to work in."""
    shutil.copytree(home, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")


def run(capsys, *arguments, main=publish.main) -> tuple[int, str]:
    capsys.readouterr()
    code = main(list(arguments))
    return code, "".join(capsys.readouterr())


def listing() -> list[str]:
    return sorted(path.name for path in Path("results/published").glob("*"))


@pytest.mark.slow
def test_what_is_published(there):
    folder = Path("results/published/first")
    parts = {path.name for path in folder.iterdir()}
    assert parts == {
        *("report.html", "summary.json", "plan.json", "published.json"),
        *("tables", "timings", "steps", "attempts"),
    }
    plan = json.loads(Path("results/plan.json").read_text())
    assert json.loads((folder / "plan.json").read_text()) == plan
    for entry in plan:
        for key in ("path", "steps"):
            here = pq.read_table(entry[key])
            assert pq.read_table(folder / Path(entry[key]).relative_to("results")).equals(here)
    for table in Path("results/tables").glob("*.parquet"):
        ours, theirs = pd.read_parquet(table), pd.read_parquet(folder / "tables" / table.name)
        drop = [column for column in ("host", "session") if column in ours]
        # without this processor's extensions the last digit may be another one
        pd.testing.assert_frame_equal(theirs.drop(columns=drop), ours.drop(columns=drop))
    assert "published" not in json.loads((folder / "summary.json").read_text())


@pytest.mark.slow
def test_what_is_not_what_the_timings_give_is_told_and_replaced_if_wanted(there, capsys):
    folder = Path("results/published/first")
    table = folder / "tables/ratios.csv"
    whole = table.read_text()
    first = whole.splitlines()[1]
    table.write_text(whole.replace(first, first.replace("R_A", "R_X")))
    (folder / "tables/noise.parquet").unlink()
    shutil.copy(folder / "tables/idle.parquet", folder / "tables/ratios.parquet")
    code, told = run(capsys, main=published.main)
    assert code == 1
    assert "first: not what its timings give\n" in told and "FORCE=1" in told
    lines = len(whole.split("\n"))
    assert f"tables/ratios.csv: 1 of {lines} lines differ, the first is line 2\n" in told
    assert "published: R_X" in told and "made now:  R_A" in told
    assert "tables/noise.parquet: is made, and not published" in told
    assert re.search(r"tables/ratios.parquet: \d+ rows of \d+ columns, made now: \d+ rows", told)
    assert len(re.findall("(?m)^  [^ ]", told)) == 3
    assert table.read_text() != whole
    code, told = run(capsys, "--update", main=published.main)
    assert code == 0 and "first: replaced\n" in told and "tables/ratios.csv: 1 of" in told
    assert table.read_text() == whole and listing() == ["first"]
    assert pd.read_parquet(folder / "tables/ratios.parquet")["name"].eq("R_A").any()


@pytest.mark.slow
def test_published_again_it_is_the_same_and_a_taken_name_needs_force(there, capsys):
    code, told = run(capsys, "--name", "first")
    assert code == 2 and "results/published/first is there; FORCE=1 replaces it" in told
    first = Path("results/published/first")
    content = {path: path.read_bytes() for path in first.rglob("*.*") if path.is_file()}
    stray = first / "stray.txt"
    stray.write_text("of an earlier time")
    assert run(capsys, "--name", "first", "--force")[0] == 0
    assert listing() == ["first"] and not stray.exists()
    assert all(path.read_bytes() == data for path, data in content.items())


@pytest.mark.slow
def test_results_that_are_not_what_their_timings_give(there, capsys):
    summary = json.loads(Path("results/summary.json").read_text())
    summary["cells"][0]["tok_s"] *= 1.001
    Path("results/summary.json").write_text(json.dumps(summary))
    code, told = run(capsys, "--name", "second")
    assert code == 2 and 'make report ARGS="--forcerun tables"' in told
    assert listing() == ["first"]


@pytest.mark.slow
def test_a_large_table_is_left_out_and_the_page_is_the_same(there, capsys, monkeypatch):
    sizes = {file.name: file.stat().st_size for file in Path("results/tables").iterdir()}
    monkeypatch.setattr(folders, "LARGEST_TABLE", sizes["requests.csv"] - 1)
    code, told = run(capsys, "--name", "small")
    assert code == 0 and "requests.csv" in told
    small, first = (Path("results/published", name) for name in ("small", "first"))
    assert {file.name for file in (small / "tables").iterdir()} == {*sizes} - {"requests.csv"}
    assert (small / "report.html").read_bytes() == (first / "report.html").read_bytes()


@pytest.mark.slow
def test_stopped_it_leaves_nothing_and_the_old_stays(there, capsys, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    old = {p: p.read_bytes() for p in Path("results").rglob("*") if p.is_file()}
    monkeypatch.setattr(library, "check_fresh", lambda *_: None)
    for name, where in (("make", library), ("clean_file", library)):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, stop)
            assert run(capsys, "--name", "first", "--force")[0] == 130
            assert run(capsys, "--name", "second")[0] == 130
    # at the very moment of the exchange
    rename = Path.rename
    with monkeypatch.context() as patch:
        patch.setattr(library, "make", lambda _: None)
        moved = []

        def once(path, target):
            moved.append(path.name)
            return stop() if path.name == ".first.partial" else rename(path, target)

        patch.setattr(Path, "rename", once)
        assert run(capsys, "--name", "first", "--force")[0] == 130
        assert moved == ["first", ".first.partial", ".first.old"]
    assert {p: p.read_bytes() for p in Path("results").rglob("*") if p.is_file()} == old
    assert listing() == ["first"]


def test_two_at_a_time(tmp_path):
    target = tmp_path / "published/x"
    with folders.in_place_of(target) as folder:
        (folder / "a").touch()
        second = folders.in_place_of(target)
        with pytest.raises(folders.CannotPublish, match=r"rm -r .*\.x\.partial"), second:
            pass
    assert [str(p.relative_to(tmp_path)) for p in target.rglob("*")] == ["published/x/a"]


def test_nothing_is_left_where_nothing_was_ever_published(tmp_path):
    with pytest.raises(ZeroDivisionError), folders.in_place_of(tmp_path / "published/x") as folder:
        (folder / "a").touch()
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["../x", "a/b", ".x", "-x", "a b", "x\n", "/x", "é"])
def test_a_name_that_is_no_plain_folder(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "config.yaml", tmp_path)
    code, told = run(capsys, f"--name={name}")
    assert code == 2 and "not a plain folder name" in told
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


def test_without_a_name_and_without_results(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "config.yaml", tmp_path)
    code, told = run(capsys)
    assert code == 2 and told.startswith("usage: make publish NAME=")
    for name in ("report.html", "plan.json", "summary.json"):
        code, told = run(capsys, "--name", "x")
        assert (code, told) == (2, f"publish: results/{name} is missing; run: make report\n")
        Path("results").mkdir(exist_ok=True)
        Path("results", name).write_text("[]" if name == "plan.json" else "{}")
    code, told = run(capsys, main=published.main)
    assert code == 0 and "make publish NAME=" in told


@pytest.mark.parametrize("publishable", [None, {"value": False, "reasons": ["one repeat: n = 1"]}])
def test_refused(publishable, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "config.yaml", tmp_path)
    Path("results").mkdir()
    Path("results/report.html").touch()
    Path("results/plan.json").write_text("[]")
    summary = {"publishable": publishable} if publishable else {}
    Path("results/summary.json").write_text(json.dumps(summary))
    for reason in ("", "  \n"):
        code, told = run(capsys, "--name", "x", "--reason", reason)
        assert code == 2 and "not publishable:" in told and "REASON=" in told
        assert not publishable or "\n  one repeat: n = 1\n" in told
    assert not Path("results/published").exists()


@pytest.mark.parametrize("path", ["/data/1.parquet", "results/../x/1.parquet", "other/1.parquet"])
def test_a_planned_file_outside_of_the_results(path):
    entry = {"path": "results/timings/a.parquet", "steps": path}
    with pytest.raises(folders.CannotPublish, match="no path below results/"):
        list(library._files([entry]))


def test_a_folder_that_publish_did_not_make(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("results/published/by-hand").mkdir(parents=True)
    code, told = run(capsys, "--update", main=published.main)
    assert code == 1 and "by-hand: not made by `make publish`" in told


def test_no_processor_computes_with_extensions_of_its_own():
    code = 'import numpy; print(numpy.show_config("dicts")["SIMD Extensions"].get("found", []))'
    told = []
    for more in ({}, folders.same_everywhere()):
        done = subprocess.run(
            [sys.executable, "-c", code], env=os.environ | more, capture_output=True, text=True
        )
        told.append(done.stdout.strip())
    assert told[1] == "[]", done.stderr
    assert told[0] != "[]" or platform.machine() != "x86_64"


def test_alike():
    one = {"a": [1.0, None, "x", True], "n": 3}
    assert library.alike(one, {"n": 3, "a": [1.0 + 1e-9, None, "x", True]})
    for other in ({**one, "n": 4}, {"a": one["a"]}, {**one, "a": one["a"][:3]}):
        assert not library.alike(one, other)
    assert not library.alike(1.0, 1.0001) and not library.alike(1.0, None)


def test_the_reason_is_a_notice_in_both_languages():
    data = make_data({}, {"published": {"reason": "a {first} <look>"}})
    for language in ("en", "vi"):
        with speaking(language):
            (notice,) = published_notice.notices(data)
        assert notice.sentence.endswith("a {first} <look>")
    assert published_notice.notices(make_data({}, {})) == []


# --- nobody's names


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    """The published folder of a result with names wherever one may be: two hosts, two users."""

    def spoil(plan):
        def name(meta):
            origin = meta["provenance"]
            run = "5ec0nd" if meta["attempt"] == 2 else "04ce5e6d9a89"
            host = "zetahost" if meta["attempt"] == 2 else ORIGIN["host"]
            session = f"{host}/{BOOT}/{run}"
            origin |= {"host": host, "boot": BOOT, "session": session}
            origin["executable"] = "/home/alice/four-cells/.venv/bin/python"
            meta["spec"]["model"] |= {"weights": WEIGHTS}
            meta["applied"] |= {"download_dir": "/scratch/carol/hub", "on alice-box": "of alice"}
            for seen in meta["witness"]["windows"]:
                seen["missing"] = {"quota_stops": "alice-box: no /home/alice/quota for Alice"}
            meta["reason"] += f'; the spec changed at model.weights: "/home/carol/x" to "{WEIGHTS}"'

        synthetic.remeasure(find(plan, "static", "B", repeat=2), faster=1.25)
        for entry in plan:
            entry["spec"]["model"] |= {"weights": WEIGHTS}
            attempts = sorted(Path(entry["attempts"]).glob("*.parquet"))
            for path in (entry["path"], entry["steps"], *attempts):
                synthetic.rewrite(path, metadata=name)
        # seen as contended by the config's threshold alone
        synthetic.contend(find(plan, "vllm", "A"), share=0.03)
        damaged = Path(find(plan, "vllm", "B")["attempts"], "9.parquet")
        damaged.write_bytes(b"written by alice on alice-box")

    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("named")
        patch.chdir(home)
        patch.setattr(platform, "node", lambda: "bobs-laptop.lan")
        patch.setattr(getpass, "getuser", lambda: "robert")
        make_results(spoil, {"foreign_cpu_share": 0.02})
        reason = f"shown by robert on\nbobs-laptop, see {home}/notes and /home/carol/x"
        assert publish.main(["--name", "with-names", "--reason", reason]) == 0
        return home / "results/published/with-names"


def every_text(folder: Path) -> dict[str, str]:
    """All that the files hold: bytes as they are, and what lies packed in them."""
    texts = {}
    for file in sorted(folder.rglob("*")):
        name = str(file.relative_to(folder))
        texts[f"name of {name}"] = name
        if not file.is_file():
            continue
        raw = file.read_bytes()
        texts[name] = raw.decode("latin-1")
        if file.suffix == ".html":
            packed = re.findall(r"base64,([A-Za-z0-9+/=]+)", texts[name])
            texts[f"{name}, unpacked"] = "\n".join(str(base64.b64decode(each)) for each in packed)
            texts[name] = re.sub(r"base64,[A-Za-z0-9+/=]+", "", texts[name])
        if raw.startswith(b"PAR1"):
            metadata = pq.read_metadata(file)
            texts[f"{name}, unpacked"] = f"{metadata.metadata} {pq.read_table(file).to_pydict()}"
            texts[f"{name}, schema"] = f"{pq.read_schema(file)}"
    return texts


@pytest.mark.slow
def test_not_one_byte_of_a_name(named):
    texts = every_text(named)
    secrets = [*SECRET, str(named.parents[2]).lower(), str(ROOT).lower()]
    told = {
        name: [word for word in secrets if word in text.lower()] for name, text in texts.items()
    }
    assert {name: words for name, words in told.items() if words} == {}
    # the look would find them
    before = every_text(named.parents[1]).values()
    assert [w for w in SECRET if not any(w in text.lower() for text in before)] == OF_PUBLISHER


@pytest.mark.slow
def test_sessions_hosts_and_folders_are_still_told_apart(named):
    metadata = [library._metadata(file) for file in sorted(named.glob("attempts/**/[12].parquet"))]
    seen = {(m["provenance"]["host"], m["provenance"]["session"]) for m in metadata}
    assert seen == {("host A", "session 1"), ("host B", "session 2")}
    assert all(m["provenance"]["git"] == {"commit": "0" * 40, "dirty": False} for m in metadata)
    assert all(m["provenance"]["boot"] == "boot 1" for m in metadata)
    summary = json.loads((named / "summary.json").read_text())
    assert summary["machine"]["hosts"] == ["host A", "host B"]
    (elsewhere,) = summary["trust"]["elsewhere"]
    assert elsewhere["what"] == "its host is host B, not host A"
    assert summary["trust"]["stale"] == []  # the spec's folder is the same on both sides
    assert summary["trust"]["missing_sources"][0]["reason"].startswith("host A: no path ")


@pytest.mark.slow
def test_conclusions_are_those_of_the_results(named):
    ours, theirs = (
        json.loads((folder / "summary.json").read_text()) for folder in (named.parents[1], named)
    )
    for key in ("cells", "ratios", "attribution", "step_model", "controls"):
        assert library.alike(theirs[key], ours[key])
    kinds = [text for text in theirs["publishable"]["reasons"] if "not clean" in text]
    assert kinds == ["timings not clean: 2 of 12 (contended 1, mixed_session 1)"]
    unreadable = (named / "tables/attempts.csv").read_text().count("perhaps damaged")
    assert unreadable == 1


@pytest.mark.slow
def test_the_reason_is_on_the_page(named):
    page = re.sub(r"\s+", " ", (named / "report.html").read_text())
    said = re.findall(r"shown by user on host C, see path \d+ and path \d+", page)
    assert len(said) >= 1


@pytest.mark.slow
def test_also_this_one_is_the_same_when_made_again(named, monkeypatch, capsys):
    monkeypatch.chdir(named.parents[2])
    code, told = run(capsys, main=published.main)
    assert (code, told) == (0, "with-names: page and tables are what its timings give\n")


def test_a_name_that_is_left_is_found(tmp_path):
    found = names()
    (tmp_path / "tables").mkdir()
    (tmp_path / "a.json").write_text('{"x": "on alice-box"}')
    (tmp_path / "tables/b.csv").write_text("x\nrobert\n")
    (tmp_path / "c-alice.txt").touch()
    (tmp_path / "empty.parquet").touch()
    (tmp_path / "report.html").write_text(f"<p>{BOOT} data:text/csv;base64,/home/robert</p>")
    pq.write_table(pa.table({"n": [1], "t": ["by alice"]}), tmp_path / "d.parquet")
    table = pa.table({"n": [1]}).replace_schema_metadata({"fourcells": '{"at": "/home/alice/x"}'})
    pq.write_table(table, tmp_path / "e.parquet")
    assert sorted(library.names_left(tmp_path, found)) == [
        "a.json: alice-box",
        "c-alice.txt: alice",
        "d.parquet: alice",
        "e.parquet: /home/alice/x",
        f"report.html: {BOOT}",
        "tables/b.csv: robert",
    ]
