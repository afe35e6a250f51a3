"""What a student wrote is shown as text: nothing of it can run in the page of whoever reads it.

Two steps. What nbgrader keeps in autograded/ is made harmless on disk (`autograder.gradebook.shown`), so that it does
not matter which tool shows it. Pages that nbconvert makes of it clean their Markdown once more (`safe_markdown`).
"""

from __future__ import annotations

import html
import re

import bleach
from jinja2 import pass_context
from jinja2.runtime import Context
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

HEADINGS = {f"h{level}" for level in range(1, 7)}
TABLE = {"table", "thead", "tbody", "tr", "th", "td"}
BLOCKS = {"blockquote", "details", "div", "hr", "li", "ol", "p", "pre", "summary", "ul"}
INLINE = {"a", "b", "br", "code", "del", "em", "i", "img", "kbd", "s", "span", "strong", "sub", "sup"}
TAGS = HEADINGS | TABLE | BLOCKS | INLINE
LINK = re.compile(r"(?:https?://|mailto:|#|\w[\w./-]*(?:#|$))", flags=re.IGNORECASE)
PICTURES = ("image/png", "image/jpeg", "image/gif")
PICTURE = re.compile(rf"data:(?:{'|'.join(PICTURES)});base64,[A-Za-z0-9+/=]+")
ATTACHED = "attachment:"
Attachments = dict[str, dict[str, str]]
MAX_MARKDOWN = 8_000
"""Characters of a text that is read as Markdown: the parser's time grows with the square of some texts' length."""
DEARER = {
    re.compile(r"<\w"): 300,
    re.compile(r"-[ :]*\|"): 60,
    re.compile("&"): 200,
    re.compile(r"([*_>~=`])\1{7}"): 60,
    re.compile(r"\|\n"): 200,
}
"""What makes the parser slow in a shorter text too, by how often it stands in what a person writes at most."""
BLOCK = re.compile(r"(`{3,})text\n(.*)\n\1((?:\n\n!\[\]\(attachment:[\w.-]+\))*)", flags=re.DOTALL)
"""What `as_text` makes, and the pictures below it."""


@pass_context
def safe_markdown(context: Context, source: str) -> str:
    """In the place of nbconvert's filter ``markdown2html``: the HTML of `source`, with nothing in it that could run."""
    cell = context.get("cell", {})
    return as_html(source, cell.get("attachments", {}))


def as_html(source: str, attachments: Attachments | None = None) -> str:
    if not _is_quick(source):
        return _as_block(source, attachments)
    renderer = IPythonRenderer(escape=False, exclude_anchor_links=True, attachments=attachments)
    try:
        page = MarkdownWithMath(renderer=renderer).render(source)
        protocols = {"http", "https", "mailto", "data"}  # the last for pictures alone
        safe: str = bleach.clean(page, tags=TAGS, attributes=_may_stay, protocols=protocols)
    except RecursionError:
        return _as_block(source, attachments)
    return safe


def _as_block(source: str, attachments: Attachments | None) -> str:
    block = BLOCK.fullmatch(source)
    below = block[3][:MAX_MARKDOWN] if block else ""
    page = f"<pre><code>{html.escape(block[2] if block else source)}</code></pre>"
    return page + (as_html(below, attachments) if below else "")


def _may_stay(tag: str, name: str, value: str) -> bool:
    if name == "src":
        return tag == "img" and bool(PICTURE.fullmatch(value))
    if name == "href":
        return tag == "a" and bool(LINK.match(value))
    return name in {"class", "title", "alt", "start", "open"} or (name == "id" and tag in HEADINGS)


def harmless(source: str, attachments: Attachments | None = None) -> str:
    """`source` itself if it is plain Markdown; with HTML, foreign pictures or odd links, its text as a code block.

    So is a text that can't be read as Markdown at once.
    """
    if _is_quick(source):
        watch = _Watch(attachments or {})
        try:
            MarkdownWithMath(renderer=watch).render(source)
        except RecursionError:
            watch.active = True
        if not watch.active:
            return source
    shown = (f"\n\n![](attachment:{name})" for name in attachments or {} if re.fullmatch(r"[\w.-]+", name))
    return as_text(source) + "".join(shown)


def _is_quick(source: str) -> bool:
    return len(source) <= MAX_MARKDOWN and all(len(each.findall(source)) <= most for each, most in DEARER.items())


def as_text(source: str) -> str:
    """`source` as a code block in Markdown, with a fence that is longer than any in it."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", source)), default=0))
    return f"{fence}text\n{source}\n{fence}"


class _Watch(IPythonRenderer):
    """Notes whether Markdown brings more than formatted text, as nbconvert itself reads it."""

    def __init__(self, attached: Attachments) -> None:
        super().__init__(escape=False)
        self.attached, self.active = attached, False

    def block_html(self, html: str) -> str:
        self.active = True
        return ""

    inline_html = block_html

    def block_mermaidjs(self, code: str) -> str:
        return self.block_html(code)

    def image(self, text: str, url: str, title: str | None = None) -> str:
        known = url.startswith(ATTACHED) and url.removeprefix(ATTACHED) in self.attached
        self.active = self.active or not known
        return ""

    def link(self, text: str, url: str, title: str | None = None) -> str:
        self.active = self.active or not LINK.match(url)
        return ""


def pictures(attachments: Attachments) -> dict[str, dict[str, str]]:
    """Those in one of the formats that can't hold code, if they are what they say."""
    kept = {
        name: {kind: data for kind, data in of.items() if PICTURE.fullmatch(f"data:{kind};base64,{data}")}
        for name, of in attachments.items()
    }
    return {name: of for name, of in kept.items() if of}
