"""HTML of results and of progress for notebooks. Plain data in, text out. All text of the data is escaped.

Styles are inline, since a notebook that is not trusted loses its style sheets. They use the colours of the text around
them, so that the output is readable in light and dark themes."""

from __future__ import annotations

import dataclasses
import html
import math
import numbers
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

TEXT_MAX = 60  # Characters of a cell; the whole text is its tooltip.
TOOLTIP_MAX = 2000
MESSAGE_MAX = 600  # Characters of an error or notice.
_LINE = "border-bottom:1px solid rgba(128,128,128,.25)"
_CELL = "padding:2px 10px 2px 0;vertical-align:top;white-space:nowrap;background:none;"
_COLOURS = {  # Of the dots before states.
    "running": "#1f8fe0",
    "waiting": "#8a8a8a",
    "pending": "#8a8a8a",
    "starting": "#8a8a8a",
    "paused": "#b58900",
    "restarting": "#b58900",
    "stopped": "#7a6fd0",
    "pruned": "#7a6fd0",
    "finished": "#2a9d4a",
    "complete": "#2a9d4a",
    "alive": "#2a9d4a",
    "interrupted": "#b58900",
    "failed": "#d9403a",
    "lost": "#d9403a",
    "dead": "#d9403a",
}


@dataclasses.dataclass(frozen=True)
class State:
    """A cell with a dot in the colour of the state before its name."""

    name: str


@dataclasses.dataclass(frozen=True)
class Row:
    cells: Sequence[Any]  # None: nothing is known, shown as a dash.
    is_best: bool = False


@dataclasses.dataclass
class Table:
    columns: Sequence[str]
    rows: Sequence[Row]
    note: str = ""  # What the table leaves out.


@dataclasses.dataclass
class Page:
    """What an output shows. Empty parts are left out."""

    title: str
    state: str = ""
    facts: Sequence[str] = ()  # Counts, time, resources: in one line.
    done: float | None = None  # The part that is done, from 0 to 1: a bar.
    lines: Sequence[str] = ()  # The best trial, what a run waits for.
    tables: Sequence[Table] = ()
    errors: Sequence[tuple[str, str]] = ()  # Who failed, and why.
    errors_left_out: int = 0
    notices: Sequence[str] = ()
    footer: str = ""


def escaped(text: str, limit: int = MESSAGE_MAX) -> str:
    """The text for a place in HTML, also inside an attribute. Characters that no document may have are replaced."""
    shown = text if len(text) <= limit else text[: limit - 1] + "…"
    return html.escape("".join(each if each in "\n\t" or each.isprintable() else "\ufffd" for each in shown))


def number(value: float) -> str:
    """A number with four significant digits; whole ones in full."""
    if isinstance(value, numbers.Integral):
        return str(value)
    value = float(value)
    if not math.isfinite(value):
        return str(value)  # nan, inf, -inf
    return f"{value:.0f}" if value == int(value) and abs(value) < 1e7 else f"{value:.4g}"


def is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def plain(value: Any) -> str:
    """The text of a cell, not escaped."""
    if value is None:
        return "–"
    if isinstance(value, State):
        return value.name
    if is_number(value):
        return number(value)
    return value if isinstance(value, str) else repr(value)


def elapsed(seconds: float) -> str:
    """0:21, 1:02:03."""
    whole = max(0, int(seconds))
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def flattened(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Values of nested dictionaries by their paths: model.width."""
    found: dict[str, Any] = {}
    for name, each in value.items():
        if isinstance(each, dict) and each:
            found.update(flattened(each, f"{prefix}{name}."))
        else:
            found[f"{prefix}{name}"] = each
    return found


def in_words(values: Mapping[str, Any]) -> str:
    """lr 0.01, width 32"""
    return ", ".join(f"{name} {plain(value)}" for name, value in values.items())


def page(shown: Page) -> str:
    """The page as one element."""
    parts = [f'<div style="line-height:1.5"><strong>{escaped(shown.title)}</strong>']
    if shown.state:
        parts.append(f" · {_state(shown.state)}")
    parts += [f" · {escaped(fact)}" for fact in shown.facts if fact]
    parts.append("</div>")
    if shown.done is not None:
        share = 100 * min(1.0, max(0.0, shown.done))
        parts.append(
            '<div style="height:4px;max-width:480px;margin:4px 0;border-radius:2px;background:rgba(128,128,128,.25)">'
            f'<div style="height:4px;border-radius:2px;width:{share:.1f}%;background:#1f8fe0"></div></div>'
        )
    parts += [f"<div>{escaped(line)}</div>" for line in shown.lines if line]
    parts += [table(each) for each in shown.tables if each.rows]
    for who, why in shown.errors:
        parts.append(f'<div style="white-space:pre-wrap">{_dot("failed")}<strong>{escaped(who)}</strong> {escaped(why)}</div>')
    if shown.errors_left_out > 0:
        parts.append(f"<div>… {shown.errors_left_out} more failed</div>")
    parts += [f'<div style="white-space:pre-wrap">{escaped(notice)}</div>' for notice in shown.notices]
    if shown.footer:
        parts.append(f'<div style="opacity:.7">{escaped(shown.footer)}</div>')
    return f'<div style="font-size:90%">{"".join(parts)}</div>'


def text(shown: Page) -> str:
    """The page in a few lines, for readers without HTML."""
    head = " · ".join(part for part in (shown.title, shown.state, *shown.facts) if part)
    failed = [f"{who}: {why}"[:MESSAGE_MAX] for who, why in shown.errors]
    return "\n".join([head, *(line for line in shown.lines if line), *failed, *shown.notices, *filter(None, [shown.footer])])


def table(shown: Table) -> str:
    """The rows, with a mark before the best one."""
    is_number_column = [
        any(is_number(row.cells[index]) for row in shown.rows) and all(row.cells[index] is None or is_number(row.cells[index]) for row in shown.rows)
        for index in range(len(shown.columns))
    ]
    marks = any(row.is_best for row in shown.rows)
    head = "".join(
        f'<th style="{_CELL}{_LINE};text-align:{"right" if right else "left"}"{_tooltip(name)}>{escaped(name, TEXT_MAX)}</th>'
        for name, right in zip(shown.columns, is_number_column)
    )
    lines = []
    for row in shown.rows:
        cells = "".join(_cell(cell, right) for cell, right in zip(row.cells, is_number_column))
        mark = f'<td style="{_CELL}" title="best">{"★" if row.is_best else ""}</td>' if marks else ""
        weight = ' style="font-weight:bold"' if row.is_best else ""
        lines.append(f"<tr{weight}>{mark}{cells}</tr>")
    corner = f'<th style="{_CELL}{_LINE}"></th>' if marks else ""
    note = f'<div style="opacity:.7">{escaped(shown.note)}</div>' if shown.note else ""
    return (
        '<div style="overflow-x:auto"><table style="border-collapse:collapse;margin:4px 0;text-align:left;font-variant-numeric:tabular-nums">'
        f"<thead><tr>{corner}{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>{note}"
    )


def _cell(value: Any, right: bool) -> str:
    said = plain(value)
    shown = _state(said) if isinstance(value, State) else escaped(said, TEXT_MAX)
    return f'<td style="{_CELL}text-align:{"right" if right else "left"}"{_tooltip(said)}>{shown}</td>'


def _tooltip(said: str) -> str:
    return f' title="{escaped(said, TOOLTIP_MAX)}"' if len(said) > TEXT_MAX else ""


def _state(name: str) -> str:
    return f"{_dot(name)}{escaped(name, TEXT_MAX)}"


def _dot(state: str) -> str:
    return f'<span style="color:{_COLOURS.get(state, "inherit")}">●</span> '


def counts(states: Iterable[str]) -> str:
    """3 running, 9 finished: in the order of _COLOURS."""
    found: dict[str, int] = {}
    for state in states:
        found[state] = found.get(state, 0) + 1
    ordered = sorted(found, key=lambda state: (list(_COLOURS).index(state) if state in _COLOURS else len(_COLOURS), state))
    return ", ".join(f"{found[state]} {state}" for state in ordered)


def counted(amount: int, noun: str) -> str:
    return f"{amount} {noun}" if amount == 1 else f"{amount} {noun}s"


def resources(total: Mapping[str, float], used: Mapping[str, float]) -> str:
    """2 of 4 CPUs, 0.5 of 1 GPU: those in use. Memory is left out where none is."""
    names = {"cpus": "CPU", "gpus": "GPU"}
    parts = []
    for name, amount in total.items():
        taken = used.get(name, 0.0)
        if name == "memory":
            if taken:
                parts.append(f"{taken / 2**30:.1f} of {amount / 2**30:.1f} GiB")
        elif amount:
            noun = names.get(name, name)
            plural = "s" if name in names and amount != 1 else ""
            parts.append(f"{taken:g} of {amount:g} {noun}{plural}")
    return ", ".join(parts)


def display_path(path: str) -> str:
    """~/volador_results/…"""
    home = os.path.expanduser("~").rstrip("/")
    return "~" + path[len(home) :] if home and path.startswith(home + "/") else path
