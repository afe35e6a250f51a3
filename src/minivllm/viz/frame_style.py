"""Colours and hatches of the player, for a light and a dark page.

The player brings its own background, so that its contrast does not depend on the page. Fills are Okabe-Ito colours,
told apart in every kind of colour vision; each also has a label, a hatch or an outline of its own.
"""

from dataclasses import dataclass

_OKABE_ITO = ("#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")
DARK_PAGES = ('[data-jp-theme-light="false"]', 'html[theme="dark"]', ".vscode-dark")  # JupyterLab, Colab, VS Code


@dataclass(frozen=True)
class Palette:
    """One page's colours; ``tint`` is how much of an owner's colour shines through its fill."""

    page: str
    ink: str
    muted: str
    line: str
    faint: str
    rule: str
    computed: str
    scheduled: str
    drafts: str
    hit: str
    accent: str
    tint: float


LIGHT = Palette(
    page="#ffffff",
    ink="#1b1f24",
    muted="#57606a",
    line="#6e7781",
    faint="#8c959f",
    rule="#d0d7de",
    computed="#c3c9d0",
    scheduled="#7cc4ee",
    drafts="#f0b840",
    hit="#8fd3bd",
    accent="#9a3b00",
    tint=0.38,
)
DARK = Palette(
    page="#15181c",
    ink="#eef1f4",
    muted="#aab2bb",
    line="#8b949e",
    faint="#6b747d",
    rule="#3a4149",
    computed="#565e67",
    scheduled="#1f6f9f",
    drafts="#8a5f00",
    hit="#0b6b50",
    accent="#ffa657",
    tint=0.42,
)


def svg_css(scope: str, palette: Palette) -> str:
    """Rules for everything drawn under ``scope``."""
    p = palette
    rules = {
        "text": f"fill:{p.ink};font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',sans-serif;"
        "font-size:11px",
        ".m": f"fill:{p.muted}",
        ".b": "font-weight:600",
        ".s": "font-size:8px",
        ".n": "font-size:10px",
        ".h": f"paint-order:stroke;stroke:{p.page};stroke-width:3px;stroke-linejoin:round",
        ".i": "text-anchor:middle",
        ".e": "text-anchor:end",
        ".x": f"fill:{p.page};stroke:{p.line}",
        ".q": f"fill:{p.page};stroke:{p.line};stroke-dasharray:3 2",
        ".f": f"fill:{p.page};stroke:{p.faint};stroke-width:.8",
        ".c": f"fill:{p.computed};stroke:{p.line}",
        ".d": f"fill:none;stroke:{p.ink};stroke-width:.8",
        ".k": f"fill:{p.ink}",
        ".r": f"stroke:{p.line}",
        ".hs": f"fill:{p.scheduled}",
        ".hd": f"fill:{p.drafts}",
        ".hh": f"fill:{p.hit}",
        ".hn": f"fill:{p.page}",
        ".hl": f"stroke:{p.ink};stroke-width:.7;fill:none;opacity:.55",
        **{f".o{i}": f"fill:{colour};fill-opacity:{p.tint};stroke:{p.line}" for i, colour in enumerate(_OKABE_ITO)},
        ".w": f"stroke:{p.ink};stroke-width:2",
    }
    return "".join(f"{scope} {selector}{{{rule}}}" for selector, rule in rules.items())


def html_css(scope: str, palette: Palette) -> str:
    p = palette
    return (
        f"{scope}{{background:{p.page};color:{p.ink};border-color:{p.rule}}}"
        f"{scope} .mv-muted{{color:{p.muted}}}{scope} .mv-why{{border-color:{p.rule}}}"
        f"{scope} .mv-why li::marker{{color:{p.accent}}}"
        f"{scope} pre{{background:{p.page};color:{p.ink}}}"
    )


_LAYOUT = """
.mv{border:1px solid;border-radius:8px;padding:12px 16px 14px;font:13px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,
'Noto Sans',sans-serif;max-width:1320px;box-sizing:border-box}
.mv-head{display:flex;flex-wrap:wrap;gap:2px 18px;align-items:baseline;margin:0 0 6px}
.mv-head b{font-size:15px;font-weight:600}
.mv-why{margin:0 0 10px;padding:6px 0;border:solid;border-width:1px 0;overflow:auto;box-sizing:border-box}
.mv-why ul{margin:0;padding:0 0 0 18px;list-style:'›  '}
.mv-why li{margin:0;line-height:20px;overflow-wrap:anywhere}
.mv-panels{display:flex;flex-wrap:wrap;gap:14px 28px;align-items:flex-start}
.mv-panels>svg{flex:1 1 400px;min-width:0;max-width:640px;height:auto}
.mv pre{margin:0;font:12px/1.45 ui-monospace,Menlo,Consolas,monospace;white-space:pre;overflow:auto}
"""


def page_css() -> str:
    """The style sheet of a player on any page."""
    dark = [f"{page} .mv" for page in DARK_PAGES]
    return (
        _LAYOUT.replace("\n", "")
        + html_css(".mv", LIGHT)
        + svg_css(".mv", LIGHT)
        + "".join(html_css(scope, DARK) + svg_css(scope, DARK) for scope in dark)
    )


def hatches(prefix: str) -> str:
    """Pattern fills ``PREFIX-s`` (scheduled), ``-d`` (drafts), ``-h`` (hit) and ``-n`` (null)."""
    paths = {
        "s": "M-2 2L2 -2M0 8L8 0M6 10L10 6",
        "d": "M0 0L8 8M8 0L0 8",
        "h": "M0 4H8",
        "n": "M-2 2L2 -2M0 8L8 0M6 10L10 6",
    }
    patterns = "".join(
        f'<pattern id="{prefix}-{name}" width="8" height="8" patternUnits="userSpaceOnUse">'
        f'<rect class="h{name}" width="8" height="8"/><path class="hl" d="{path}"/></pattern>'
        for name, path in paths.items()
    )
    return f"<defs>{patterns}</defs>"
