"""Functions of this program as programs of their own, which trials run."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_BYTES_MAX = 120_000  # An argument of a process on Linux has less than 128 KiB.


def program_of(
    function: Callable[..., Any],
    values: Mapping[str, Any] | None,
    searched: Mapping[str, str] = {},
    *,
    literals: Iterable[str] = (),
    by_name: bool | None = False,
    packages: Iterable[str] | None = None,
    indexes: Iterable[str] = (),
) -> list[str]:
    """A command of a container that calls the function with `values`, as its source stands in this program, with Python of the node.

    searched: texts in the place of values, by name, such as "${trialParameters.lr}"; they become arguments of the command, so that no
    character of them has a meaning. The function gets texts, or, for the names in `literals`, what they are in Python. by_name: as keyword
    arguments; None: as far as its signature has them; else as one map. values None: without an argument. packages: are installed first.

    Raises ValueError: the function has no source of its own, or a value cannot be written in Python."""
    source = _source_of(function)
    names = dict(values or {})
    for name, value in names.items():
        if name not in searched and not _is_written(value):
            raise ValueError(f"parameter {name!r}: expected a value that can be written in Python, as a number, a text or a list of such; got {value!r}")
    if by_name is None:
        try:
            inspect.signature(function).bind(**names)
            by_name = True
        except TypeError:
            by_name = False
    shown = {name: None if name in searched else value for name, value in names.items()}
    call = "" if values is None else "**_values" if by_name else "_values"
    code = (
        f"{source}\n"
        "import ast as _ast, sys as _sys\n"
        f"_values = {shown!r}\n"
        "for _word in _sys.argv[1:]:\n"
        "    _name, _value = _word.split('=', 1)\n"
        f"    _values[_name] = _ast.literal_eval(_value) if _name in {sorted(literals)!r} else _value\n"
        f"{function.__name__}({call})\n"
    )
    if len(code.encode()) > _BYTES_MAX:
        raise ValueError(f"{function.__name__}: its source with the parameters has {len(code.encode())} bytes; at most {_BYTES_MAX} can be sent to a trial")
    words = [f"{name}={text}" for name, text in searched.items()]
    if not packages:
        return ["python3", "-u", "-c", _escaped(code), *words]
    index, *more = list(indexes) or [""]
    options = ([f"--index-url={index}"] if index else []) + [f"--extra-index-url={url}" for url in more]
    # The shell gets the packages and the program as arguments, not as its own text.
    script = 'count=$1; shift; python3 -m pip install --quiet --disable-pip-version-check "${@:1:count}" && shift $count && exec python3 -u -c "$@"'
    installed = [*options, *packages]
    return [_escaped(word) for word in ["bash", "-c", script, "install", str(len(installed)), *installed, code]] + words


def _escaped(word: str) -> str:
    """In the commands of containers $(NAME) is a variable, and $$ is $."""
    return word.replace("$", "$$")


def _source_of(function: Callable[..., Any]) -> str:
    if not inspect.isfunction(function) or function.__name__ == "<lambda>":
        raise ValueError(f"expected a function that `def` defines, got {function!r}")
    if inspect.iscoroutinefunction(function):
        raise ValueError(f"{function.__name__}: expected a function without async")
    try:
        return textwrap.dedent(inspect.getsource(function))
    except OSError as error:
        raise ValueError(f"{function.__name__}: its source cannot be read, which a trial gets; define it in a file: {error}") from None


def _is_written(value: Any) -> bool:
    try:
        ast.literal_eval(repr(value))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False
    return True
