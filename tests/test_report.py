"""The report: what it says, what it draws, and how it behaves in a browser."""

from __future__ import annotations

import functools
import html
import itertools
import math
import os
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topperk as tp
from topperk.datasets.simulated import World, simulate_world
from topperk.edges import report_words
from topperk.edges.demo import WHY_LOW, are_low, run_demo
from topperk.edges.explaining import meaning_of, report_of
from topperk.edges.measuring import measure
from topperk.edges.report import (
    ItemExample,
    MethodRow,
    PairedTest,
    ReliabilityCurve,
    ReliabilitySection,
    ReportData,
    TruthCurve,
    UserExample,
    UtilitySection,
    write_report,
)
from topperk.edges.svg import nice_ticks, number, percent, spread
from topperk.errors import InputError, StorageError
from topperk.utility import utility_named

CHROMIUM = Path(os.environ.get("TOPPERK_CHROMIUM", "/usr/bin/chromium"))
MEANINGS = {
    "NDCG": "Relevant items count more the higher they stand; 1 is the best order possible.",
    "PDCG": "Like NDCG without the norm, and every irrelevant item shown costs as much.",
    "F1": "The balance of how much of the list is relevant and how much of what is relevant is "
    "in the list.",
    "TP": "The share of what could be hit in a list of this length that is hit.",
}


def utility_curves(y: Any, n_relevant: Any, max_k: int) -> dict[str, Any]:
    """Realised curves of four utilities for outcomes y[..., rank] in order of rank."""
    k = np.arange(1, max_k + 1)
    y = y[..., :max_k]
    m = np.maximum(n_relevant, 1)[..., None]
    discount = 1 / np.log2(1 + k)
    ideal = np.cumsum(discount)[np.minimum(m, k) - 1]
    gained, hits = np.cumsum(y * discount, -1), np.cumsum(y, -1)
    curves = {
        "NDCG": gained / ideal,
        "PDCG": gained - np.cumsum((1 - y) * discount, -1),
        "F1": 2 * hits / (m + k),
        "TP": hits / np.minimum(m, k),
    }
    return {name: np.insert(curve, 0, 0.0, axis=-1) for name, curve in curves.items()}


@functools.cache
def simulated_report(
    n_users: int = 150, n_items: int = 240, max_k: int = 50, seed: int = 3, samples: int = 60
) -> ReportData:
    """A report about Poisson-binomial users who differ in taste, breadth and activity."""
    rng = np.random.default_rng(seed)
    breadth = rng.uniform(0.8, 2.6, n_users)[:, None]
    activity = rng.normal(-3.6, 0.9, n_users)[:, None]
    logits = breadth * rng.normal(0, 1, (n_users, n_items)) + activity
    guesses = 0.95 * logits + 0.1 + rng.normal(0, 0.35, logits.shape)
    order = np.argsort(-guesses, axis=1)
    true, guess = (1 / (1 + np.exp(-np.take_along_axis(z, order, 1))) for z in (logits, guesses))
    relevant = rng.random(true.shape) < true
    kept = relevant.any(axis=1)
    realised = utility_curves(relevant, relevant.sum(1), max_k)

    def expected(p: Any) -> dict[str, Any]:
        total = dict.fromkeys(MEANINGS, np.zeros(1))
        for _ in range(samples):
            y = rng.random(p.shape) < p
            for name, curve in utility_curves(y, y.sum(1), max_k).items():
                total[name] = total[name] + curve / samples
        return total

    estimated, exact = expected(guess), expected(true)
    everyone = np.arange(n_users)
    sections, truths, chosen = [], [], {}
    for name, meaning in MEANINGS.items():
        curves = realised[name]
        k_personal = 1 + np.argmax(estimated[name][:, 1:], axis=1)
        k_oracle = 1 + np.argmax(curves[:, 1:], axis=1)
        chosen[name] = k_personal
        methods = {f"fixed {k}": np.full(n_users, k) for k in (1, 5, 10, 20, 50) if k <= max_k}
        methods |= {
            "random": rng.integers(1, max_k + 1, n_users),
            "Val-k": np.clip(k_oracle + rng.integers(-9, 9, n_users), 1, max_k),
            "personal": k_personal,
            "Oracle": k_oracle,
        }
        values = {method: curves[everyone, k][kept] for method, k in methods.items()}
        rows = []
        for method, k in methods.items():
            mean, half = values[method].mean(), 1.96 * values[method].std() / math.sqrt(kept.sum())
            fixed = int(k[0]) if method.startswith("fixed") else None
            row = (method, mean, mean - half, mean + half, k.mean(), float(np.median(k)), fixed)
            rows.append(MethodRow(*row))
        fixed_curve = curves[kept].mean(0)
        best = 1 + int(np.argmax(fixed_curve[1:]))
        tests = [
            PairedTest(row.method, float((values["personal"] - values[row.method]).mean()), 0.0004)
            for row in rows
            if row.method != "personal"
        ]
        tests.append(PairedTest(f"best fixed ({best})", 0.01, 0.003, fixed_k=best))
        sections.append(
            UtilitySection(
                name=name,
                meaning=meaning,
                fixed_curve=fixed_curve,
                methods=tuple(rows),
                personal=float(values["personal"].mean()),
                oracle=float(values["Oracle"].mean()),
                lengths_personal=np.bincount(k_personal[kept], minlength=max_k + 1),
                lengths_oracle=np.bincount(k_oracle[kept], minlength=max_k + 1),
                tests=tuple(tests),
                min_k=1,
            )
        )
        difference = float(np.abs(estimated[name] - exact[name]).mean())
        truths.append(TruthCurve(name, difference, estimated[name].mean(0), exact[name].mean(0)))

    by_length = np.argsort(chosen["F1"])
    examples = []
    for place in (0.15, 0.5, 0.93):
        user = int(by_length[int(place * (n_users - 1))])
        k = int(chosen["F1"][user])
        items = tuple(
            ItemExample(r + 1, f"item {order[user, r]}", guess[user, r], bool(relevant[user, r]))
            for r in range(max_k)
        )
        examples.append(
            UserExample(
                user=f"u{user}",
                headline=f"Gets {k} items: some {guess[user].sum():.0f} of {n_items} are expected "
                "to be wanted, and the first of them stand out.",
                k=k,
                expected_curve=estimated["F1"][user],
                realised_curve=realised["F1"][user],
                true_curve=exact["F1"][user],
                items=items,
            )
        )
    raw = 1 / (1 + np.exp(-(np.log(guess / (1 - guess)) * 0.6 + 0.8)))
    return ReportData(
        title="A simulated world",
        subtitle="topperk demo: how many items should each user be shown?",
        facts=(
            ("users", f"{n_users}"),
            ("items", f"{n_items}"),
            ("interactions", f"{int(relevant.sum()):,}"),
            ("longest list", f"{max_k}"),
            ("users without a test item, left out", f"{int((~kept).sum())}"),
            ("seed", f"{seed}"),
            ("topperk", "0.1.0"),
            ("python", "3.11.2"),
            ("machine", "x86_64, 2 cores"),
        ),
        utilities=tuple(sections),
        reliability=ReliabilitySection(
            "Before calibration",
            "After calibration",
            reliability_curve(raw, relevant),
            reliability_curve(guess, relevant),
        ),
        users=tuple(examples),
        estimated_vs_true=tuple(truths),
        users_utility="F1",
    )


def reliability_curve(p: Any, y: Any, n_bins: int = 12) -> ReliabilityCurve:
    p, y = p.ravel(), y.ravel()
    groups = np.array_split(np.argsort(p), n_bins)
    said = np.array([p[group].mean() for group in groups])
    seen = np.array([y[group].mean() for group in groups])
    count = np.array([len(group) for group in groups])
    ece = float((np.abs(said - seen) * count).sum() / count.sum())
    log_loss = float(-np.where(y, np.log(p), np.log1p(-p)).mean())
    return ReliabilityCurve(said, seen, count, ece, float(((p - y) ** 2).mean()), log_loss)


# --- what it says -----------------------------------------------------------------------------


def section(personal: float, best: float, p: float = 0.001, **changes: Any) -> UtilitySection:
    """A section in which k = 2 is the best single length."""
    settings: dict[str, Any] = {
        "name": "F1",
        "meaning": "",
        "fixed_curve": [0.0, best - 0.1, best, best - 0.2],
        "methods": (),
        "personal": personal,
        "oracle": max(personal, best) + 0.3,
        "lengths_personal": [0, 3, 4, 3],
        "lengths_oracle": [0, 5, 5, 0],
        "tests": (PairedTest("best fixed (2)", personal - best, p, fixed_k=2),),
        "min_k": 1,
    }
    return UtilitySection(**{**settings, **changes})


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (section(0.55, 0.5), "Personal lists give users 10 % more F1 than the best list of one"),
        (section(0.55, 0.5, p=0.4), "a difference that may be chance (p = 0.40)"),
        (section(0.45, 0.5), "Personal lists are not better here: they give users 10 % less F1"),
        (section(0.5, 0.5), "are worth the same here"),
        (section(-0.1, -0.2), "bring F1 to −0.1000, from −0.2000"),
        (section(-0.3, -0.2), "Personal lists are not better here: F1 is −0.3000"),
        (section(math.nan, 0.5), "could not be measured"),
        (
            section(0.1, -0.2, fixed_curve=[0, -0.3, -0.2, -0.4], min_k=0),
            "an empty list for everybody (k = 0)",
        ),
    ],
)
def test_finding_is_honest(found: UtilitySection, words: str) -> None:
    said = report_words.finding(found).replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert words in said.replace("\N{NO-BREAK SPACE}", " ")


def test_lengths_are_told_in_a_sentence() -> None:
    assert report_words.lengths(section(0.5, 0.4)).startswith("Lists run from 1 to 3 items")
    same = section(0.5, 0.4, lengths_personal=[0, 0, 9, 0])
    assert report_words.lengths(same) == "Every user gets 2 items."
    assert report_words.lengths(section(0.5, 0.4, lengths_personal=[0] * 4)).startswith("No user")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.93, 1.0])
def test_length_at_share_is_a_quantile(share: float) -> None:
    counts = np.array([2, 0, 5, 1, 2])
    k = report_words.length_at_share(counts, share)
    assert counts[: k + 1].sum() >= share * counts.sum()
    assert k == 0 or counts[:k].sum() < share * counts.sum()


def test_numbers_are_written_for_people() -> None:
    assert number(-0.25) == "\N{MINUS SIGN}0.2500"
    assert number(math.nan) == number(math.inf) == "\N{EN DASH}"
    assert percent(0.123).replace("\N{NARROW NO-BREAK SPACE}", " ") == "12 %"


@given(
    st.floats(-1e6, 1e6, allow_subnormal=False),
    st.floats(1e-6, 1e6, allow_subnormal=False),
    st.integers(2, 9),
)
def test_ticks_are_round_and_inside(low: float, width: float, n: int) -> None:
    ticks = nice_ticks(low, low + width, n)
    assert ticks == sorted(set(ticks))
    assert len(ticks) <= 3 * n
    slack = 1e-6 * max(abs(low), width)
    assert all(low - width - slack <= tick <= low + 2 * width + slack for tick in ticks)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=5))
def test_labels_are_spread_apart(wanted: list[float]) -> None:
    placed = spread(wanted, 10, 0, 100)
    assert all(-1e-6 <= place <= 100 + 1e-6 for place in placed)
    ordered = sorted(placed)
    assert all(b - a >= 10 - 1e-6 for a, b in itertools.pairwise(ordered))


# --- the page as a file -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(path, simulated_report())
    return path


class Page(HTMLParser):
    """Counts elements, and checks that they close in the order in which they were opened."""

    VOID = frozenset({"meta", "link", "input", "br", "hr", "img"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.counts: dict[str, int] = {}
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.counts[tag] = self.counts.get(tag, 0) + 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag


def test_page_is_whole_and_asks_nobody(report: Path) -> None:
    text = report.read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert "script" not in page.counts
    assert page.counts["svg"] >= 4 + 4 + 3 + 2
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", text)
    assert "url(" not in re.sub(r"url\(#", "", text)
    assert "nan" not in re.sub(r"[a-z]+nan|nan[a-z]+", "", text.lower())
    assert len(text) < 1_000_000


def test_every_figure_stands_in_a_table_too(report: Path) -> None:
    text = report.read_text(encoding="utf-8")
    for method in ("random", "Val-k", "personal", "Oracle"):
        assert method in text
    assert Page(text).counts["table"] >= 10


def test_what_users_call_their_things_is_text_and_not_markup(tmp_path: Path) -> None:
    nasty = '<script>alert("1")</script>&amp;\x00\u202e'
    data = ReportData(
        title=nasty,
        subtitle=nasty,
        facts=((nasty, nasty),),
        utilities=(section(0.5, 0.4, name=nasty, meaning=nasty),),
        users=(
            UserExample(nasty, nasty, 1, np.array([0, 0.5]), (ItemExample(1, nasty, 0.5, True),)),
        ),
        users_utility=nasty,
    )
    write_report(tmp_path / "report.html", data)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "\x00" not in text


def test_what_was_not_measured_is_a_dash(tmp_path: Path) -> None:
    empty = section(
        math.nan, math.nan, oracle=math.nan, fixed_curve=[math.nan] * 4, p=math.nan,
        methods=(MethodRow("personal", math.nan, math.nan, math.nan, math.nan, math.nan),),
    )  # fmt: skip
    curve = ReliabilityCurve([], [], [], math.nan, math.nan, math.nan)
    write_report(
        tmp_path / "report.html",
        ReportData("t", "s", (), (empty,), ReliabilitySection("a", "b", curve, curve)),
    )
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "nan" not in text.lower().replace("finance", "")
    assert "\N{EN DASH}" in text


@pytest.mark.parametrize("name", ["", "missing/report.html"])
def test_a_place_that_can_not_be_written_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(StorageError, match="folder"):
        write_report(tmp_path / name, simulated_report())


def test_a_failed_write_leaves_the_old_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.raises(StorageError, match="No space left"):
        write_report(path, simulated_report())
    assert path.read_text() == "old"
    assert [found.name for found in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MethodRow("a", 0.5, 0.6, 0.7, 1, 1), "confidence interval"),
        (lambda: PairedTest("a", 0.1, 1.5), "1.5"),
        (lambda: section(0.5, 0.4, fixed_curve=[]), "shape"),
        (lambda: section(0.5, 0.4, lengths_personal=[1, 2]), "2 entries"),
        (lambda: section(0.5, 0.4, lengths_personal=[0, 0.5, 1, 1]), "whole numbers"),
        (lambda: section(0.5, 0.4, min_k=9), "min_k"),
        (lambda: ReliabilityCurve([1.2], [0.5], [3], 0, 0, 0), "outside 0 to 1"),
        (lambda: ReliabilityCurve([0.2, 0.3], [0.5], [3], 0, 0, 0), "one of each"),
        (lambda: ItemExample(0, "a", 0.5), "start at 1"),
        (lambda: ItemExample(1, "a", 1.5), "1.5"),
        (lambda: UserExample("a", "", 5, np.zeros(3), ()), "must lie from 0 to 2"),
        (lambda: UserExample("a", "", 1, np.zeros(3), (), np.zeros(2)), "realised_curve"),
        (lambda: TruthCurve("F1", 0.1, np.zeros(3), np.zeros(2)), "true_curve"),
        (lambda: ReportData("t", "s", (), ()), "at least one utility"),
        (lambda: TruthCurve("F1", 0.1, "words", np.zeros(2)), "not an array of numbers"),  # type: ignore[arg-type]
    ],
)
def test_content_checks_itself(make: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()


# --- from a model to a report --------------------------------------------------------------------


@pytest.fixture(scope="module")
def world() -> World:
    return simulate_world(n_users=60, n_items=80, seed=2)


def report_for(
    model: tp.FittedK, scores: Any, split: tp.Split, utilities: Sequence[tp.Utility], **more: Any
) -> ReportData:
    measured = measure(model, scores, split, utilities)
    return report_of(measured, scores, split, title="A model", subtitle="", **more)


@pytest.mark.parametrize("own", [tp.PDCG(), tp.NDCG(), tp.NetGain(1, 0.3), tp.F1()], ids=repr)
def test_the_three_users_have_the_lists_that_the_model_gives(
    world: World, tmp_path: Path, own: tp.Utility
) -> None:
    model = tp.PersonalizedK(own, min_k=0, max_k=30).fit(world.scores, world.split)
    data = report_for(model, world.scores, world.split, [tp.F1(), own])
    assert data.subtitle == ""
    k = dict(model.sizes(world.scores).select("user_id", "k").iter_rows())
    assert [user.k for user in data.users] == [k[user.user] for user in data.users]
    other = dict(model.for_utility(tp.F1()).sizes(world.scores).select("user_id", "k").iter_rows())
    assert own == tp.F1() or k != other
    write_report(tmp_path / "report.html", data)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"Three users, and where their lists for {own.name} end" in text


def test_lists_for_another_utility_than_the_models_are_called_so(world: World) -> None:
    model = tp.PersonalizedK(tp.PDCG(), min_k=0, max_k=30).fit(world.scores, world.split)
    data = report_for(model, world.scores, world.split, [tp.TP(), tp.F1()])
    sizes = model.for_utility(tp.TP()).sizes(world.scores)
    k = dict(sizes.select("user_id", "k").iter_rows())
    assert "for PDCG; here lengths are chosen anew for TP and F1." in data.subtitle
    assert data.users_utility == "TP"
    assert [user.k for user in data.users] == [k[user.user] for user in data.users]


def test_every_utility_of_ours_is_explained_with_its_numbers() -> None:
    plain = [utility_named(name) for name in ("ndcg", "pdcg", "f1", "tp", "precision", "recall")]
    strange = [tp.DCG(), tp.FBeta(2), tp.FBeta(0.5), tp.NetGain(1.5, 0.25), tp.NetGain(3, 0.25)]
    meanings = {meaning_of(one) for one in (*plain, *strange)}
    assert len(meanings) == len(plain) + len(strange)
    assert "A utility of your own." not in meanings
    assert "0.5 times" in meaning_of(tp.FBeta(0.5))
    assert "brings 1.5, and every other one costs 0.25" in meaning_of(tp.NetGain(1.5, 0.25))


def test_a_utility_of_ones_own_is_not_explained_by_its_name() -> None:
    assert meaning_of(tp.Custom("F1", discount=[1.0, 0.5])) == "A utility of your own."


def test_ids_are_shown_as_they_are_called(world: World, tmp_path: Path) -> None:
    """Apostrophes, quotes and backslashes are part of a name."""
    users = [f"{'O`Brien' if user % 2 else ''}'{user}'\"s \\" for user in range(60)]
    items = [f"'{item}'s-Hertogenbosch" for item in range(80)]
    ids = tp.Ids.of(users=users, items=items)
    scores = tp.Factors(
        world.user_vectors, world.item_vectors, ids, world.user_biases, world.item_biases
    )
    parts = [
        {
            "user_id": [users[user] for user in part.user_codes()],
            "item_id": [items[item] for item in part.items],
        }
        for part in world.split.parts().values()
    ]
    split = tp.split_given(*parts)
    model = tp.PersonalizedK(tp.F1(), max_k=5).fit(scores, split, on_missing="skip")
    measured = measure(model, scores, split, [tp.F1()], on_missing="skip")
    data = report_of(measured, scores, split, title="Names", subtitle="")
    assert {user.user for user in data.users} <= set(users)
    assert {item.label for user in data.users for item in user.items} <= set(items)
    write_report(tmp_path / "report.html", data)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert all(html.escape(user.user) in text for user in data.users)


@pytest.mark.parametrize("lower", [0.05, -0.05])
def test_estimates_are_low_where_all_of_them_are(lower: float) -> None:
    true = np.array([0.0, 0.3, 0.2])
    truth = (TruthCurve("F1", 0.05, true - lower, true), TruthCurve("TP", 0.1, true - 0.1, true))
    assert are_low(truth) == (lower > 0)


def test_the_demo_says_why_its_estimates_are_low(tmp_path: Path) -> None:
    measured, path = run_demo(tmp_path, n_users=100, n_items=300, seed=0, progress=None)
    assert are_low(measured.truth)
    assert html.escape(WHY_LOW) in path.read_text(encoding="utf-8")


def test_a_note_on_the_estimates_stands_with_them(tmp_path: Path) -> None:
    write_report(tmp_path / "report.html", replace(simulated_report(), truth_note=WHY_LOW))
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    found = text.index(html.escape(WHY_LOW))
    assert text.index("How close the estimate is to the truth") < found


# --- in a browser -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium, or a skip that says what is missing."""
    if not CHROMIUM.is_file():
        pytest.skip(f"no Chromium at {CHROMIUM}; set TOPPERK_CHROMIUM to its path")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as started:
        found = started.chromium.launch(
            executable_path=str(CHROMIUM),
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield found
        found.close()


@contextmanager
def opened(browser: Any, path: Path, scheme: str = "light", width: int = 1280) -> Iterator[Any]:
    """The page, with an assertion at the end that it was silent and asked for nothing else."""
    context = browser.new_context(
        color_scheme=scheme, viewport={"width": width, "height": 900}, java_script_enabled=True
    )
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    yield page
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_page_in_a_browser(browser: Any, report: Path, scheme: str, width: int) -> None:
    with opened(browser, report, scheme, width) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        shown = page.locator("svg:visible")
        assert shown.count() >= 8
        for index in range(shown.count()):
            picture = shown.nth(index)
            box = picture.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width + 0.5
            if box["width"] > 60:  # not a key of a legend
                assert box["height"] > 60
                shapes = picture.locator("path, polyline, rect, circle, line")
                assert shapes.count() > 3
                # A picture that is drawn has more than one colour.
                assert colours(picture.screenshot()) > 3


def colours(png: bytes) -> int:
    """How many colours a PNG of 8-bit samples has: its pixels unfiltered, row by row."""
    size, data, at = (0, 0, 0), b"", 8
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        body = png[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
            assert depth == 8
            size = (width, height, {2: 3, 6: 4}[colour])
        data += body if kind == b"IDAT" else b""
        at += length + 12
    width, height, n = size
    rows = np.frombuffer(zlib.decompress(data), dtype=np.uint8).reshape(height, 1 + width * n)
    before = np.zeros(width * n, dtype=np.uint8)
    found: set[bytes] = set()
    for row in rows[: min(height, 400)]:
        before = unfiltered(int(row[0]), row[1:], before, n)
        found |= {bytes(pixel) for pixel in np.unique(before.reshape(width, n), axis=0)}
    return len(found)


def unfiltered(kind: int, row: Any, above: Any, n: int) -> Any:
    """One row of a PNG as it was before its filter (none, left, above, average, Paeth)."""
    if kind == 0:
        return row.copy()
    if kind == 2:
        return row + above
    plain = np.zeros(row.size + n, dtype=np.int64)
    corner = np.concatenate([np.zeros(n, dtype=np.int64), above.astype(np.int64)])
    for i in range(row.size):
        a, b, c = plain[i], corner[i + n], corner[i]
        if kind == 1:
            guess = a
        elif kind == 3:
            guess = (a + b) // 2
        else:
            distances = (abs(b - c), abs(a - c), abs(a + b - 2 * c))
            guess = (a, b, c)[distances.index(min(distances))]
        plain[i + n] = (int(row[i]) + guess) % 256
    return plain[n:].astype(np.uint8)


def test_light_and_dark_differ_and_can_be_read(browser: Any, report: Path) -> None:
    backgrounds = []
    for scheme in ("light", "dark"):
        with opened(browser, report, scheme) as page:
            style = "el => { const s = getComputedStyle(el); return [s.color, s.backgroundColor] }"
            ink, ground = page.locator("body").evaluate(style)
            backgrounds.append(luminance(ground))
            lighter, darker = sorted([luminance(ink), luminance(ground)], reverse=True)
            assert (lighter + 0.05) / (darker + 0.05) > 7
    assert backgrounds[0] > 0.8
    assert backgrounds[1] < 0.1


def luminance(colour: str) -> float:
    """Relative luminance of a CSS rgb() colour, as WCAG defines it."""
    values = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def test_another_utility_can_be_looked_at(browser: Any, report: Path) -> None:
    with opened(browser, report) as page:
        assert page.get_by_text(MEANINGS["NDCG"]).is_visible()
        page.locator("label", has_text="F1").first.click()
        assert page.get_by_text(MEANINGS["F1"]).is_visible()
        assert not page.get_by_text(MEANINGS["NDCG"]).is_visible()
