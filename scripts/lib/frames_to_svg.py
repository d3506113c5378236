"""Watches a pane of tmux and writes what it showed as an animated SVG without script.

Equal rows are stored once; frames are a film strip that CSS moves. Blocks of the large
timer are drawn as shapes, text is fitted to its columns, so that no font can spoil it.
"""

import argparse
import html
import re
import subprocess
import sys
import time

CELL_W, CELL_H, FONT = 8, 17, 13.5
INK, FAINT, PAPER = "#c9d1d9", "#7d8590", "#0d1117"
COLOURS = {31: "#ff7b72", 32: "#7ee787", 33: "#e3b341"}
# Eighths of a cell that a block sign fills: from the top, from the bottom.
BLOCKS = {"█": (0, 8), "▀": (0, 4), **{c: (7 - i, 8) for i, c in enumerate("▁▂▃▄▅▆▇")}}


def capture(o):
    return subprocess.run([o.tmux, "-L", o.socket, "capture-pane", "-e", "-p"], check=True, capture_output=True, text=True).stdout.split("\n")[: o.rows]


def watch(o):
    """The frames with the time each was first seen, and the time of the end."""
    frames, begun, ends = [], time.monotonic(), None
    while True:
        rows, now = tuple(capture(o)), time.monotonic() - begun
        if any(r.strip() for r in rows) and (not frames or rows != frames[-1][1]):
            frames.append((now, rows))
        if ends is None and any(o.until in r for r in rows):
            ends = now + o.hold
        if ends is not None and now >= ends:
            return frames, now
        if now > o.longest:
            sys.exit(f"frames_to_svg: {o.until!r} was not seen within {o.longest} s")
        time.sleep(o.every)


def cells(row, style):
    """Each sign of a row with its colour and whether it is bold. A style goes on into
    the next row until it is changed."""
    (colour, bold, faint), out = style, []
    for escape, text in re.findall(r"\x1b\[([0-9;]*)m|([^\x1b]+)", row):
        if text:
            out += [(c, FAINT if faint else COLOURS.get(colour, INK), bold) for c in text]
            continue
        for code in (int(c or 0) for c in escape.split(";")):
            if code == 0:
                colour, bold, faint = None, False, False
            elif code == 1:
                bold = True
            elif code == 2:
                faint = True
            elif code == 22:
                bold, faint = False, False
            elif 30 <= code <= 37 or code == 39:
                colour = code
    style[:] = colour, bold, faint
    return out


def runs(row, style):
    """Neighbours of one style, blocks apart from text: column, text, colour, bold."""
    out = []
    for x, (c, colour, bold) in enumerate(cells(row, style)):
        kind = (BLOCKS.get(c), colour, bold)
        if out and out[-1][2] == kind and out[-1][0] + len(out[-1][1]) == x:
            out[-1][1] += c
        else:
            out.append([x, c, kind])
    return out


def drawn(row, style):
    parts = []
    for x, text, (block, colour, bold) in runs(row, style):
        if block:
            top, bottom = (e * CELL_H / 8 for e in block)
            parts.append(f'<path fill="{colour}" d="M{x * CELL_W} {top:g}h{len(text) * CELL_W}V{bottom:g}h-{len(text) * CELL_W}z"/>')
        elif text.strip():
            x, text = x + len(text) - len(text.lstrip(" ")), text.strip(" ")
            weight = ' font-weight="700"' if bold else ""
            parts.append(f'<text x="{x * CELL_W}" y="13" fill="{colour}"{weight} textLength="{len(text) * CELL_W}" lengthAdjust="spacingAndGlyphs">{html.escape(text)}</text>')
    return "".join(parts)


def svg(o, frames, end):
    width, height = o.columns * CELL_W, o.rows * CELL_H
    ids, defs, strip, steps = {}, [], [], []
    for n, (at, rows) in enumerate(frames):
        uses, style = [], [None, False, False]
        for y, row in enumerate(rows):
            shape = drawn(row, style)
            if not shape:
                continue
            if shape not in ids:
                ids[shape] = f"r{len(ids)}"
                defs.append(f'<g id="{ids[shape]}">{shape}</g>')
            uses.append(f'<use href="#{ids[shape]}" y="{y * CELL_H}"/>')
        strip.append(f'<g transform="translate(0 {n * height})">{"".join(uses)}</g>')
        steps.append(f"{100 * (at - frames[0][0]) / (end - frames[0][0]):.3f}%{{transform:translateY(-{n * height}px)}}")
    last = (len(frames) - 1) * height
    pad = 12
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + 2 * pad} {height + 2 * pad}" font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,monospace" font-size="{FONT}">',
        f"<title>{html.escape(o.title)}</title>",
        f"<style>text{{white-space:pre}}.film{{animation:film {end - frames[0][0]:.2f}s steps(1,end) infinite}}@keyframes film{{{''.join(steps)}}}"
        f"@media (prefers-reduced-motion:reduce){{.film{{animation:none;transform:translateY(-{last}px)}}}}</style>",
        f'<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>',
        f"<defs>{''.join(defs)}</defs>",
        f'<svg x="{pad}" y="{pad}" width="{width}" height="{height}"><g class="film">',
        *strip,
        "</g></svg>",
        "</svg>",
        "",
    ])


def main():
    p = argparse.ArgumentParser(description=__doc__)
    for name in ("tmux", "socket", "until", "title", "out"):
        p.add_argument("--" + name, required=True)
    p.add_argument("--columns", type=int, required=True)
    p.add_argument("--rows", type=int, required=True)
    p.add_argument("--every", type=float, default=0.5, help="seconds between two looks")
    p.add_argument("--hold", type=float, default=6, help="seconds that the last frame stays")
    p.add_argument("--longest", type=float, default=300, help="seconds to wait for --until")
    o = p.parse_args()
    frames, end = watch(o)
    with open(o.out, "w", encoding="utf-8") as f:
        f.write(svg(o, frames, end))
    print(f"{len(frames)} frames, {end - frames[0][0]:.0f} s")


if __name__ == "__main__":
    main()
