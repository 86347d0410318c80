"""Hooks of mkdocs.yml: pages that are made of files outside docs/, and links as they are in the repository.

mkdocs calls on_files, on_page_markdown and on_page_context; scripts/docs.sh runs it.
"""

import pathlib
import posixpath
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]

# Page of the site → file of the repository.
MADE = {"index.md": "README.md", "changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md", "license.md": "LICENSE"}
PAGES = {file: page for page, file in MADE.items()}

LINK = re.compile(r"(\]\()([^)#:\s]+)((?:#[^)\s]*)?\))")
FENCED = re.compile(r"^```.*?^```$", re.S | re.M)
NO_LINK = re.compile(r"\](?=\([^)]*\s[^)]*\))")  # A lambda in a comment of the reference.
TIGHT = re.compile(r"^(?![-|#>\s]|\d+\. )(.+)\n(?=- |\d+\. |\|)", re.M)  # A list or table directly below a line of text, which mkdocs needs apart.
COMMENT = re.compile(r"<!-- cpp.*?-->\n", re.S)  # tests/docs/snippets.py reads them.


def target_on_site(target, source):
    """The link `target` of the file `source`, both relative to the root of the repository, as a path of the site."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    if path in PAGES:
        return PAGES[path]
    return path.removeprefix("docs/")


def rewritten(markdown, source, page):
    """The text of a page with links that hold on the site."""
    def link(match):
        before, target, after = match.groups()
        there = target_on_site(target, source)
        if (ROOT / "docs" / there).is_dir():  # A folder has no page: the text alone.
            return before + "PLAIN)"
        return before + posixpath.relpath(there, posixpath.dirname(page) or ".") + after

    def outside(text):
        text = re.sub(r"(`[^`\n]+`)|\\<", lambda found: found[1] or "&lt;", text)  # mkdocs does not read "\\<".
        text = TIGHT.sub(r"\1\n\n", NO_LINK.sub(r"\]", text))
        return re.sub(r"\[([^\]]*)\]\(PLAIN\)", r"\1", LINK.sub(link, text))

    out, at = "", 0
    for block in FENCED.finditer(markdown):
        out += outside(markdown[at:block.start()]) + block.group()
        at = block.end()
    return out + outside(markdown[at:])


def on_files(files, config):
    from mkdocs.structure.files import File

    for page, source in MADE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        if source == "LICENSE":
            text = f"# Licence\n\n```\n{text}```\n"
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    name = page.file.src_uri
    if name == "index.md":
        page.meta["hide"] = ["navigation"]  # The tabs are all there is.
    return rewritten(COMMENT.sub("", markdown), MADE.get(name, f"docs/{name}"), name)


def on_page_context(context, page, config, nav):
    """Words of the theme, and the language of the page, for the pages in Chinese."""
    config.theme["language"] = "zh" if page.file.src_uri.startswith("zh/") else "en"
    return context
