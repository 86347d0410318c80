"""Checks the prose of comments and pages: sentences begin with their subject, and words of the old dialect stay out.

prose_test.py ROOT [--self-test]
Prints "file:line: …" for each finding of a folder that has more of them than REMAINING allows, and exits with 1 then.
"""

import collections
import pathlib
import re
import sys

# Folders that are not clean yet, with their number of findings. A number may only fall; other folders have none.
REMAINING = {}
FOLDERS = ("cli", "dashboard", "docs", "examples", "experiments", "head", "jobs", "runtime", "scripts", "tests", "train", "tune", "volador", "worker")
SUFFIXES = {".h", ".cc", ".proto", ".py", ".ts", ".tsx", ".md"}
SKIPPED = re.compile(r"node_modules/|/dist/|docs/reference/|tests/static/|\.venv/")

START = re.compile(r"(?:^|[.!?] |\| )(Of|One that|The same of|Said of)\b")
WORDS = re.compile(r"\b(at rest|for good|its word|nobody|of now|somebody|thereby|whoever)\b", re.I)
COMMENT = {".py": re.compile(r"(?:^|\s)#+ (.*)"), ".md": re.compile(r"^[\s>*#\-]*(.*)")}
SLASHES = re.compile(r"(?:^|\s)//+ ?(.*)|^\s*(?:\{?/\*+|\*(?= )) ?(.*)")


def findings(suffix, text):
    """(line number, words) of each comment line, or line of a page outside of code, that is wrong."""
    quoted = False  # In a docstring, or in the code of a page.
    for number, line in enumerate(text.split("\n"), start=1):
        marks = line.count({".py": '"""', ".md": "```"}.get(suffix, "\0"))
        found = COMMENT.get(suffix, SLASHES).search(line)
        if suffix == ".py" and (quoted or marks):
            found = re.search(r'(?:""")?(.*)', line.strip())
        elif found and suffix != ".md" and re.sub(r"\\.", "", line[: found.start()]).count('"') % 2:
            found = None
        words = next(filter(None, found.groups()), "") if found and not (suffix == ".md" and quoted) else ""
        if wrong := START.search(words) or WORDS.search(words):
            yield number, f'"{wrong.group(1)}" in: {words[:90]}'
        quoted ^= marks % 2


def check(root):
    by_folder = collections.defaultdict(list)
    for path in sorted(path for folder in FOLDERS for path in (root / folder).rglob("*") if path.suffix in SUFFIXES):
        name = path.relative_to(root).as_posix()
        if not SKIPPED.search(name):
            folder = max((one for one in REMAINING if name.startswith(one + "/")), key=len, default=name.split("/")[0])
            by_folder[folder] += [f"{name}:{number}: {words}" for number, words in findings(path.suffix, path.read_text())]
    for folder in sorted(by_folder.keys() | REMAINING.keys()):
        found, allowed = by_folder[folder], REMAINING.get(folder, 0)
        if found and len(found) > allowed:
            print(*found, sep="\n")
        if len(found) != allowed:
            print(f"{folder}: {len(found)} findings, REMAINING has {allowed}" + ("; lower it" if len(found) < allowed else ""))
    return 1 if not by_folder or any(len(found) > REMAINING.get(folder, 0) for folder, found in by_folder.items()) else 0


def self_test():
    cases = [
        (".h", 'int of;  // Of the trial.\nlog("// Of now");\nint x;  // Bytes. One that ends is dropped.', 2),
        (".py", '"""Reads it.\n\nOf each line the first."""\nx = 1  # Ends for good.\ny = "# Of"', 2),
        (".md", "| a | Of both. |\n```\n// Of code.\n```\n- One of them, of which a copy is left.", 1),
    ]
    for suffix, text, expected in cases:
        found = list(findings(suffix, text))
        assert len(found) == expected, f"{text!r}: expected {expected}, found {found}"
    print(f"{len(cases)} cases hold")
    return 0


sys.exit(self_test() if "--self-test" in sys.argv else check(pathlib.Path(sys.argv[1])))
