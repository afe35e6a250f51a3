"""Syntax of Python 3.12 and 3.13 in the words of 3.11: f-strings of any kind, ``type X = ...``, type parameters.

The course supports all three, and a notebook is not always read by the Python that it was written with.
"""

from __future__ import annotations

import re

_STRING = re.compile(r"(?<!\w)([rRbBuUfF]{0,2})('''|\"\"\"|'|\")")
_ALIAS = re.compile(r"^([ \t]*)type[ \t]+(\w+)[ \t]*(\[[^\n]*?\])?[ \t]*=(?!=)", re.MULTILINE)
_PARAMETERS = re.compile(r"^([ \t]*)((?:async[ \t]+)?def|class)([ \t]+\w+)[ \t]*\[", re.MULTILINE)
_SPACE = re.compile(r"(?:\s|\\\n|#[^\n]*)*")


def rewritten(text: str) -> tuple[str, str]:
    """The text for Python 3.11, and the Python that it needs as it is; two empty texts if none newer is known."""
    try:
        return _rewritten(text)
    except (IndexError, ValueError, RecursionError):  # it ends inside a string or a bracket
        return "", ""


def _rewritten(text: str) -> tuple[str, str]:
    fstrings = _Strings(text)
    older = fstrings.code(0, inside=False)[1]
    version = "3.12" if fstrings.newer else ""
    if _ALIAS.search(older):
        older, version = _ALIAS.sub(_alias, older), "3.12"
    while found := _PARAMETERS.search(older):
        end = _closing(older, found.end())
        names = older[found.end() : end]
        version = max(version, "3.13" if _has_default(names) else "3.12")
        older = _without_parameters(older, found, names, end + 1)
    return (older, version) if version else ("", "")


def _alias(found: re.Match[str]) -> str:
    return f"{found[1]}{_variables((found[3] or '[]')[1:-1])}{found[2]} ="


def _variables(names: str) -> str:
    """Assignments of type variables, before a statement on its line."""
    found = [re.match(r"\s*(\**)(\w+)", name) for name in _split(names)]
    return "".join(f'{name[2]} = __import__("typing").TypeVar("{name[2]}"); ' for name in found if name)


def _split(names: str) -> list[str]:
    parts, depth = [""], 0
    for char in names:
        depth += (char in "([{") - (char in ")]}")
        if char == "," and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return [part for part in parts if part.strip()]


def _has_default(names: str) -> bool:
    return any(re.match(r"\s*\**\w+\s*(?::[^=]*)?=(?!=)", name) for name in _split(names))


def _closing(text: str, start: int) -> int:
    depth = 1
    for index in range(start, len(text)):
        depth += (text[index] in "([{") - (text[index] in ")]}")
        if not depth:
            return index
    raise IndexError


def _without_parameters(text: str, found: re.Match[str], names: str, end: int) -> str:
    indent, word, name = found[1], found[2], found[3]
    variables = _variables(names)
    before = text[: found.start()]
    lines = before.split("\n")
    at = len(lines) - 1
    while at and lines[at - 1].startswith(f"{indent}@"):  # the variables stand above the decorators
        at -= 1
    head = "\n".join([*lines[:at], ""]) if at else ""
    decorators = "\n".join(lines[at:])
    rest = text[end:]
    if word == "class":
        generic = ", ".join(each.strip(" *").split(":")[0].split("=")[0].strip() for each in _split(names))
        base = f'__import__("typing").Generic[{generic}]'
        rest = f"({base}, {rest.lstrip()[1:]}" if rest.lstrip().startswith("(") else f"({base}){rest}"
    return f"{head}{indent}{variables}\n{decorators}{indent}{word}{name}{rest}"


class _Strings:
    """Reads code character by character; f-strings that only 3.12 reads become joined strings."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.newer = False

    def code(self, at: int, inside: bool) -> tuple[int, str]:
        """To the end of the text, or, `inside` an f-string, to where its expression ends: the place and the code."""
        text, out, depth = self._text, list[str](), 0
        last = ""  # the string that the code so far ends with
        while at < len(text):
            if found := _STRING.match(text, at):
                string, at = self._string(found)
                if last and "(" in (last[0], string[0]):  # a joined one can't stand beside another without it
                    out.append("+ ")
                space = _SPACE.match(text, at) if not inside else None
                gap = space[0] if space else ""
                out.append(string + gap)
                last, at = string, at + len(gap)
                continue
            last = ""
            char = text[at]
            if char == "#":
                end = text.find("\n", at)
                end = len(text) if end < 0 else end
                out.append("" if inside else text[at:end])
                at = end
                continue
            if inside and not depth and (char in "}:" or (char == "!" and text[at + 1] != "=")):
                return at, "".join(out)
            depth += (char in "([{") - (char in ")]}")
            out.append(char)
            at += 1
        if inside:
            raise IndexError
        return at, "".join(out)

    def _string(self, found: re.Match[str]) -> tuple[str, int]:
        prefix, quote = found[1].lower(), found[2]
        if "f" not in prefix:
            end = self._end(found.end(), quote)
            return self._text[found.start() : end], end
        before, self.newer = self.newer, False
        parts, end = self._formatted(found.end(), quote, prefix.replace("f", ""))
        needs, self.newer = self.newer, before or self.newer
        if not needs:
            return self._text[found.start() : end], end
        return f'("".join(({"".join(f"{part}, " for part in parts)})))', end

    def _end(self, at: int, quote: str) -> int:
        while not self._text.startswith(quote, at):
            if self._text[at] == "\n" and len(quote) == 1:
                raise IndexError
            at += 2 if self._text[at] == "\\" else 1
        return at + len(quote)

    def _formatted(self, at: int, quote: str, prefix: str, in_spec: bool = False) -> tuple[list[str], int]:
        """The parts of an f-string's content as expressions, and the place behind it."""
        text, parts, literal = self._text, [], ""
        while not (text[at] == "}" if in_spec else text.startswith(quote, at)):
            if text[at] == "\n" and len(quote) == 1:
                raise IndexError
            if not in_spec and text[at : at + 2] in ("{{", "}}"):
                literal, at = literal + text[at], at + 2
            elif text[at] == "{":
                parts += [f"{prefix}{quote}{literal}{quote}"] if literal else []
                expression, at = self._expression(at + 1, quote, prefix)
                parts, literal = parts + expression, ""
            elif text.startswith("\\N{", at) and not prefix:
                end = text.index("}", at) + 1
                literal, at = literal + text[at:end], end
            else:
                step = 2 if text[at] == "\\" else 1
                literal, at = literal + text[at : at + step], at + step
        parts += [f"{prefix}{quote}{literal}{quote}"] if literal else []
        return parts, at + (0 if in_spec else len(quote))

    def _expression(self, start: int, quote: str, prefix: str) -> tuple[list[str], int]:
        text = self._text
        at, code = self.code(start, inside=True)
        raw = text[start:at]
        if quote in raw or "\\" in raw or "#" in raw or (len(quote) == 1 and "\n" in raw):
            self.newer = True
        said: list[str] = []
        conversion, spec = "", '""'
        if found := re.search(r"(?<![=!<>])=\s*$", code):
            said, code, conversion = [repr(raw)], code[: found.start()], "r"
        if text[at] == "!":
            conversion, at = text[at + 1], at + 2
            at += len(text[at:]) - len(text[at:].lstrip())
        if text[at] == ":":
            parts, at = self._formatted(at + 1, quote, prefix, in_spec=True)
            spec = " + ".join(parts) or '""'
            conversion = "" if said and conversion == "r" and text[start:at].count("!r") == 0 else conversion
        if text[at] != "}":
            raise IndexError
        value = {"r": f"repr(({code}))", "s": f"str(({code}))", "a": f"ascii(({code}))"}.get(conversion, f"({code})")
        return [*said, f"format({value}, {spec})"], at + 1
