"""The command line: one verb each for fitting, recommending, judging and explaining.

Data goes to stdout, talk to stderr. Exit status: 0 done, 1 the input can not be used, 2 the
command was not understood, 130 interrupted. An interrupted command leaves no half-written file.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

import polars as pl
from cyclopts import App, CycloptsError, Parameter

import topperk
from topperk._files import check_writable
from topperk._frames import check_writable_table, to_polars, write_frame_file
from topperk.calibration import Correction
from topperk.edges.cli_datasets import datasets
from topperk.edges.cli_start import demo, warmup
from topperk.edges.opening import (
    AS_USUAL,
    Reading,
    calibrator_named,
    chosen_users,
    chosen_utilities,
    made_folder,
    open_scores,
    write_parts,
)
from topperk.edges.options import (
    CalibratorName,
    CandidateColumn,
    Interactions,
    Jobs,
    Json,
    MemoryLimit,
    Missing,
    MissingCandidates,
    Model,
    ScoreColumn,
    Scores,
)
from topperk.edges.shell_words import in_shell_words
from topperk.errors import SettingError, TopperkError
from topperk.storage import check_savable
from topperk.utility import Method, utility_named

INTERRUPTED = 130

app = App(
    name="topperk",
    help="How many items should this user be shown? A personal list length for every user.",
    help_format="markdown",
    help_epilogue="Start with `topperk demo`. Each verb has examples: `topperk fit --help`.",
    version=topperk.__version__,
    suppress_keyboard_interrupt=False,
)
app.register_install_completion_command()
app.command(demo)
app.command(warmup)
app.command(datasets)


@app.command
def split(
    interactions: Annotated[Path, Parameter(help="A file of interactions.")],
    folder: Annotated[Path, Parameter(help="Where train, validation and test are written.")],
    *,
    reading: Reading = AS_USUAL,
) -> None:
    """Split interactions into the parts that a model is trained, calibrated and judged on.

    Train your model on the folder's train.parquet alone; `topperk fit` takes the folder.

    **Examples**

        topperk split ratings.csv parts
        topperk split ratings.csv parts --split last --validation 1 --test 1
    """
    from topperk.edges.terminal import talk

    if interactions.is_dir():
        raise SettingError(f"{interactions} is a folder. Name one file of interactions to split.")
    parts = reading.split(interactions)
    made_folder(folder)
    write_parts(parts, folder)
    talk(f"{parts}, written to {folder}")


@app.command
def fit(
    interactions: Interactions,
    scores: Scores,
    model: Annotated[Path, Parameter(help="The folder that the fitted model is saved to.")],
    *,
    utility: Annotated[
        str,
        Parameter(help="ndcg, pdcg, f1 (f0.5, f2, ...), tp, precision, recall, dcg, netgain:G,C."),
    ] = "f1",
    min_k: Annotated[int, Parameter(help="The shortest list; 0 allows an empty one.")] = 1,
    max_k: Annotated[int, Parameter(help="The longest list.")] = 50,
    calibrator: Annotated[
        CalibratorName,
        Parameter(
            help="How scores become probabilities; with none they are logits already, with "
            "probability they are probabilities."
        ),
    ] = "user",
    correction: Annotated[
        Correction | None,
        Parameter(help="The held-out correction; the calibrator's own if left out."),
    ] = None,
    method: Annotated[Method, Parameter(help="exact, or the paper's approximations.")] = "exact",
    reading: Reading = AS_USUAL,
    score: ScoreColumn = None,
    on_missing: Missing = "error",
    jobs: Jobs = None,
    memory_limit: MemoryLimit = None,
) -> None:
    """Fit personal list lengths on held-out interactions, and save the model.

    The scores must come from a model that was trained without the validation part; if it knows
    only what is in the train part, pass `--on-missing skip`. A file of
    interactions is split as `topperk split` would split it with the same options.

    **Examples**

        topperk fit parts factors.npz f1.topperk
        topperk fit parts candidates.parquet ndcg.topperk --utility ndcg --max-k 100
        topperk fit ratings.csv factors.npz gain --utility netgain:1,0.2 --min-k 0
    """
    from topperk.edges.terminal import bars, talk

    settings = topperk.PersonalizedK(
        utility_named(utility), min_k, max_k, calibrator_named(calibrator, correction), method
    )
    check_savable(model)
    parts = reading.split(interactions, beside=scores)
    source = open_scores(scores, reading.user_id, reading.item_id, score, beside=interactions)
    with topperk.resources(jobs, memory_limit), bars() as progress:
        fitted = settings.fit(source, parts, on_missing=on_missing, progress=progress)
    fitted.save(model)
    told = fitted.calibration
    if isinstance(told, topperk.PlattCalibration) and not told.convergence.converged:
        talk(f"warning: the calibration did not settle everywhere ({told.convergence})")
    talk(f"Fitted for {fitted.ids.n_users:,} users and {fitted.ids.n_items:,} items: {model}")


@app.command
def recommend(
    model: Model,
    scores: Scores,
    *,
    output: Annotated[
        Path | None,
        Parameter(name=["--output", "-o"], help="A file (.parquet, .csv, ...), not stdout."),
    ] = None,
    sizes: Annotated[
        bool, Parameter(negative="", help="A row per user, with the length and why, not the lists.")
    ] = False,
    user: Annotated[
        list[str] | None, Parameter(negative="", help="Only this user; may be repeated.")
    ] = None,
    json: Json = False,
    user_id: CandidateColumn = None,
    item_id: CandidateColumn = None,
    score: CandidateColumn = None,
    on_missing: MissingCandidates = "error",
    jobs: Jobs = None,
    memory_limit: MemoryLimit = None,
) -> None:
    """Give every user a list of their own length.

    Columns: user_id, item_id, rank, score, probability; with --sizes: user_id, k,
    expected_utility, expected_relevant, calibration. CSV on stdout unless --output names a file.

    **Examples**

        topperk recommend f1.topperk factors.npz --output lists.parquet
        topperk recommend f1.topperk factors.npz --sizes | head
        topperk recommend f1.topperk factors.npz --user 17 --json
    """
    from topperk.edges.terminal import bars, say_frame, talk

    if output is not None:
        if json:
            raise SettingError(
                f"--json is about stdout, and --output writes the file {output}. Leave out one of "
                "them; a file that ends in .jsonl holds JSON lines."
            )
        check_writable_table(output)
    fitted = topperk.load(model)
    source = open_scores(scores, user_id, item_id, score)
    users = None if user is None else chosen_users(user, source.ids.users)
    verb = fitted.sizes if sizes else fitted.recommend
    asked: dict[str, Any] = {"users": users, "on_missing": on_missing}
    with topperk.resources(jobs, memory_limit), bars() as progress:
        if output is not None and not sizes and output.suffix.lower() == ".parquet":
            n_rows = fitted.recommend_to(output, source, **asked, progress=progress)
            talk(f"{n_rows:,} rows written to {output}")
            return
        frame = _frame(verb(source, **asked, progress=progress))
    if output is None:
        say_frame(frame, as_json=json)
        return
    write_frame_file(frame, output)
    talk(f"{frame.height:,} rows written to {output}")


@app.command
def evaluate(
    model: Model,
    scores: Scores,
    interactions: Interactions,
    *,
    utility: Annotated[
        list[str] | None,
        Parameter(
            negative="",
            help="What lists are judged by; may be repeated. The model's own, "
            "ndcg, pdcg, f1 and tp if left out.",
        ),
    ] = None,
    report: Annotated[Path | None, Parameter(help="Write the report (HTML) to this file.")] = None,
    per_user: Annotated[
        Path | None, Parameter(help="Write each user's length and utility to this table.")
    ] = None,
    reading: Reading = AS_USUAL,
    score: ScoreColumn = None,
    json: Json = False,
    on_missing: Missing = "error",
    jobs: Jobs = None,
    memory_limit: MemoryLimit = None,
) -> None:
    """Judge a model on the test part, beside fixed and random lengths, Val-k and the Oracle.

    A file of interactions has to be split as it was for `topperk fit`: with the same options.

    **Examples**

        topperk evaluate f1.topperk factors.npz parts --report report.html
        topperk evaluate f1.topperk factors.npz parts --utility f1 --json
    """
    from topperk.edges.explaining import report_of
    from topperk.edges.measuring import measure
    from topperk.edges.report import write_report
    from topperk.edges.terminal import bars, say_json, show_comparison, talk

    if report is not None:
        check_writable(report)
    if per_user is not None:
        check_writable_table(per_user)
    fitted = topperk.load(model)
    utilities = chosen_utilities(fitted.utility, utility)
    parts = reading.split(interactions, beside=scores)
    source = open_scores(scores, reading.user_id, reading.item_id, score, beside=interactions)
    with topperk.resources(jobs, memory_limit), bars() as progress:
        measured = measure(
            fitted,
            source,
            parts,
            utilities,
            seed=reading.seed,
            on_missing=on_missing,
            progress=progress,
        )
    if per_user is not None:
        tables = [
            _frame(found.per_user()).with_columns(utility=pl.lit(found.utility.name))
            for found in measured.evaluations
        ]
        write_frame_file(pl.concat(tables), per_user)
        talk(f"Each user's lengths and utilities are in {per_user}.")
    if report is not None:
        title = f"How long are the lists of {model.name}?"
        subtitle = f"Scores: {scores.name}. Interactions: {interactions.name}."
        write_report(report, report_of(measured, source, parts, title=title, subtitle=subtitle))
        talk(f"The report is {report}: open it in a browser.")
    if json:
        say_json(measured.as_json())
    else:
        show_comparison(measured)


@app.command
def curve(
    model: Model,
    scores: Scores,
    user: Annotated[str, Parameter(help="The user's id.")],
    *,
    user_id: CandidateColumn = None,
    item_id: CandidateColumn = None,
    score: CandidateColumn = None,
    json: Json = False,
) -> None:
    """Show why a user gets as many items as they get: the expected utility of every length.

    A picture on a terminal, CSV in a pipe: k, item_id, probability, expected_utility, chosen.

    **Examples**

        topperk curve f1.topperk factors.npz 17
        topperk curve f1.topperk factors.npz 17 --json
    """
    from topperk.edges.terminal import is_terminal, say_frame, say_json, show_curve, talk

    fitted = topperk.load(model)
    source = open_scores(scores, user_id, item_id, score)
    utility = fitted.utility
    if utility is None:
        raise SettingError(f"the method {fitted.name!r} estimates no utility, so it has no curve.")
    users = chosen_users([user], source.ids.users)
    part = next(iter(fitted.blocks(source, users)))
    k, n = int(part.k[0]), int((part.items[0] >= 0).sum())
    items: list[Any] = [None, *source.ids.items.take(part.items[0, :n]).to_list()]
    frame = pl.DataFrame(
        {
            "k": range(n + 1),
            "item_id": items,
            "probability": [None, *part.probabilities[0, :n].tolist()],
            "expected_utility": part.curves[0, : n + 1].tolist(),
            "chosen": [length == k for length in range(n + 1)],
        }
    )
    reason = topperk.Reason.of(int(part.reasons[0]))
    if json:
        head = {"user_id": users[0], "utility": utility.name, "k": k, "reason": reason.name.lower()}
        say_json({**head, "curve": frame.drop("chosen").to_dicts()})
    elif is_terminal(sys.stdout):
        title = f"user {user}: {k} item{'' if k == 1 else 's'}, for {utility.name}"
        show_curve(frame.to_dicts(), k, title)
        talk(reason.value)
    else:
        say_frame(frame, as_json=False)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and leave with its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and not stream.isatty():
            stream.reconfigure(encoding="utf-8")  # whatever the locale: data is UTF-8
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status."""
    from topperk.edges.compiling import watching
    from topperk.edges.terminal import hint, page, talk

    said = "Compiling, once on this machine: this takes some fifteen seconds."
    try:
        with page() as console, watching(lambda: hint(said)):
            app(
                arguments,
                console=console,
                exit_on_error=False,
                print_error=False,
                result_action="return_value",
            )
    except CycloptsError as error:
        talk(f"topperk: {error}")
        talk("Try `topperk --help`, or --help after a verb.")
        return 2
    except TopperkError as error:
        talk(f"topperk: {in_shell_words(str(error))}", style="red")
        return 1
    except KeyboardInterrupt:
        talk("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        return 0  # whoever read the output has gone, as `head` does: nothing is left to say
    return 0


def _frame(frame: Any) -> pl.DataFrame:
    return to_polars(frame, "the result")[0]
