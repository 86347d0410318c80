"""Compiles the C++ of the pages: every ```cpp block of README.md and docs/ must be code that a user can copy.

snippets.py ROOT --compiler=COMMAND [--include=FOLDER]… [--torch-option=OPTION]…
snippets.py --self-test

A block with an #include or a main() is a whole program. One of which every line begins with "." or goes on with such a line is what
stands between the braces of tune::RunOptions; an option that is there again, or one after an empty line, begins another one. Any other is wrapped as a comment on the lines right before it says:

    <!-- cpp scope -->    it stands outside of functions
    <!-- cpp body -->     it stands in a function
    <!-- cpp              these lines are code, the block stands in the place of the line with "…"
    class Reader { … };
    -->
    <!-- cpp of FILE -->  it is a part of this source file, line for line; the build compiles the file

Fragments of a page with "train::" are compiled with train/train.h, which needs LibTorch.

"<!-- cpp scope" and "<!-- cpp body" may be followed by lines of code that stand before the block. "<!-- cpp page" does so for all fragments
of its page. In a block "…" stands for what the page leaves out. Exit code 1: a block does not compile; the compiler's message has page and line.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

FENCE = re.compile(r"^```cpp\n(.*?)^```$", re.S | re.M)
COMMENT = re.compile(r"<!-- cpp(?: (scope|body|page|of \S+))?(?:\n(.*?))?[ ]?-->\n", re.S)
OMITTED = "…"


class PageError(Exception):
    pass


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def without_omissions(code):
    """The code with nothing in place of what it leaves out; a statement that is left out becomes an empty one."""
    out = []
    for line in code.split("\n"):
        parts = re.split(r'("(?:[^"\\]|\\.)*"|//.*$)', line)
        for i in range(0, len(parts), 2):
            parts[i] = re.sub(rf"\)\s*{OMITTED}\s*$", ") {}", parts[i].rstrip() + (" " if parts[i].endswith(" ") else "")).replace(OMITTED, "")
        out.append("".join(parts))
    return "\n".join(out)


def is_program(code):
    return "#include" in code or re.search(r"\bmain\(", code) is not None


def is_options(code):
    depth = 0
    for line in code.split("\n"):
        bare = re.sub(r'"(?:[^"\\]|\\.)*"|//.*$', "", line).strip()
        if bare and depth == 0 and not bare.startswith("."):
            return False
        depth += sum(bare.count(c) for c in "({[") - sum(bare.count(c) for c in ")}]")
    return True


class Block:
    def __init__(self, page, line, code, kind, before):
        self.page, self.line, self.code, self.kind, self.before = page, line, code, kind, before

    def numbered(self):
        return f'#line {self.line} "{self.page}"\n{without_omissions(self.code)}'

    def alternatives(self):
        """(first line, options) of each RunOptions."""
        out, seen = [], set()
        for offset, text in enumerate(without_omissions(self.code).split("\n")):
            option = re.match(r"\.(\w+)", text)
            if not out or (option and (option.group(1) in seen or out[-1][1].endswith("\n\n"))):
                out.append((self.line + offset, ""))
                seen = set()
            if option:
                seen.add(option.group(1))
            out[-1] = (out[-1][0], out[-1][1] + text + "\n")
        return out

    def fragment(self, number):
        """As one declaration of a namespace of its own."""
        opening = f"namespace block_{number} {{\n"
        if self.kind == "scope":
            inside = self.before + "\n" + self.numbered()
        elif self.kind == "body":
            inside = f"{self.before}\nvoid body() {{\n{self.numbered()}}}\n"
        elif self.kind == "options":
            inside = "void body() {\n" + "".join(f'tune::RunOptions{{\n#line {line} "{self.page}"\n{code}}};\n' for line, code in self.alternatives()) + "}\n"
        else:
            first, last = self.before.split(f"\n{OMITTED}\n") if f"\n{OMITTED}\n" in self.before else (None, None)
            if first is None:
                raise PageError(f'{self.page}:{self.line}: the comment before this block has no line with "{OMITTED}" in which the block could stand')
            inside = f"{first}\n{self.numbered()}\n{last}\n"
        return f"{opening}{inside}}}  // namespace block_{number}\n"


def blocks_of(page, text):
    """(code that all fragments of the page share, its blocks)."""
    shared = ""
    comments = {}  # By their end.
    for found in COMMENT.finditer(text):
        kind, code = found.group(1), "\n" + (found.group(2) or "") + "\n"
        if kind == "page":
            shared += code
        else:
            comments[found.end()] = (kind or "wrap", code)
    blocks = []
    for found in FENCE.finditer(text):
        code, line = found.group(1), line_of(text, found.start(1))
        said = comments.pop(found.start(), None)
        if said:
            kind, before = said
        elif is_program(code):
            kind, before = "program", ""
        elif is_options(code):
            kind, before = "options", ""
        else:
            raise PageError(f"{page}:{line}: this block is neither a program nor options of tune::run: put <!-- cpp scope --> or <!-- cpp body --> on the line before it")
        blocks.append(Block(page, line, code, kind, before))
    if comments:
        raise PageError(f"{page}:{line_of(text, min(comments))}: no block of C++ follows this comment")
    return shared, blocks


def pages(root):
    root = pathlib.Path(root)
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


PRELUDE = "#include <volador/volador.h>\n\n#include <cmath>\n#include <cstdio>\n#include <deque>\n#include <fstream>\n#include <iostream>\n#include <numeric>\n\nusing namespace std::chrono_literals;\n\n"


def check_part(root, block):
    source = block.kind.removeprefix("of ")
    if "\n" + block.code not in (pathlib.Path(root) / source).read_text(encoding="utf-8"):
        raise PageError(f"{block.page}:{block.line}: this block is not a part of {source}; copy it from there")


def needs_torch(code):
    return re.search(r"#include <(torch|train)/", code) is not None


def sources(root):
    """name → code of the files to compile."""
    out = {"fragments.cc": PRELUDE, "fragments_train.cc": "#include <train/train.h>\n" + PRELUDE}
    count = 0
    for path in pages(root):
        page = str(path.relative_to(root))
        shared, blocks = blocks_of(page, path.read_text(encoding="utf-8"))
        inside = ""
        for block in blocks:
            count += 1
            if block.kind.startswith("of "):
                check_part(root, block)
            elif block.kind == "program":
                out[f"program_{count}.cc"] = block.numbered()
            else:
                inside += block.fragment(count)
        if inside:
            name = "fragments_train.cc" if re.search(r"\btrain::", shared + inside) else "fragments.cc"
            out[name] += f"namespace page_{re.sub('[^a-z]', '_', page)} {{\n{shared}{inside}}}\n"
    return out


def compile_pages(arguments):
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        includes = ["-I" + where for where in arguments.include]
        jobs = []
        for name, code in sources(arguments.root).items():
            if needs_torch(code):
                if not arguments.torch_option:
                    print(f"{name}: not compiled, there is no LibTorch")
                    continue
                own = includes + [word for option in arguments.torch_option for word in option.split()]
            else:
                own = includes
            path = pathlib.Path(folder) / name
            path.write_text(code, encoding="utf-8")
            jobs.append([*arguments.compiler.split(), "-std=c++20", "-fsyntax-only", *own, str(path)])
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for result in pool.map(lambda job: subprocess.run(job, capture_output=True, text=True, cwd=arguments.root), jobs):
                if result.returncode != 0:
                    failed = True
                    print(result.stderr)
    return 1 if failed else 0


def self_test():
    assert without_omissions("f([](int x) { … });") == "f([](int x) {  });"
    assert without_omissions("for (auto x : y) …  // …") == "for (auto x : y) {}// …", without_omissions("for (auto x : y) …  // …")
    assert without_omissions('load("…/a");') == 'load("…/a");'
    assert is_options(".a = 1,\n.f = [](int x) {\n  return x;\n},\n") and not is_options("int a;\n.b = 1")
    shared, blocks = blocks_of("p.md", "<!-- cpp page\nint a;\n-->\nText\n<!-- cpp body -->\n```cpp\na = 1;\n```\n```cpp\n.a = 1,\n```\n<!-- cpp\nclass A {\n…\n};\n-->\n```cpp\nint b;\n```\n")
    assert shared.strip() == "int a;" and [block.kind for block in blocks] == ["body", "options", "wrap"], blocks
    assert '#line 7 "p.md"\na = 1;\n}' in blocks[0].fragment(1), blocks[0].fragment(1)
    assert re.search(r'class A \{\n#line 18 "p.md"\nint b;\n\n\n?\};', blocks[2].fragment(3)), blocks[2].fragment(3)
    (block,) = blocks_of("p.md", "```cpp\n.a = 1,\n.b = f(\n  2),\n.a = 3,\n\n.c = 4,\n```\n")[1]
    assert [line for line, _ in block.alternatives()] == [2, 5, 7], block.alternatives()
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "a.cc").write_text("// A.\nint a;\nint b;\n", encoding="utf-8")
        (part,) = blocks_of("p.md", "<!-- cpp of a.cc -->\n```cpp\nint a;\nint b;\n```\n")[1]
        check_part(folder, part)
        part.code = "int a;\nint c;\n"
        try:
            check_part(folder, part)
        except PageError:
            pass
        else:
            raise AssertionError(part.code)
    assert needs_torch("#include <train/train.h>") and needs_torch("#include <torch/torch.h>") and not needs_torch("#include <volador/volador.h>")
    for wrong in ("```cpp\nint a;\n```\n", "<!-- cpp body -->\nText\n"):
        try:
            blocks_of("p.md", wrong)
        except PageError:
            continue
        raise AssertionError(wrong)
    print("ok")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?")
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--include", action="append", default=[])
    parser.add_argument("--torch-option", action="append", default=[])
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    try:
        return compile_pages(arguments)
    except PageError as error:
        print(error)
        return 1


if __name__ == "__main__":
    sys.exit(main())
