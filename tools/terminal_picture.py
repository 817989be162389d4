"""Draw the output of a command as in docs/pictures/demo.png, 100 columns wide; after `make demo`:

disent leaderboard | python tools/terminal_picture.py docs/pictures/demo.png '$ disent leaderboard'
"""

import sys
from pathlib import Path

import matplotlib
from PIL import Image, ImageDraw, ImageFont

COLUMNS, SIZE, LINE, MARGIN = 100, 14, 19, 18
INK, FAINT, PAPER = "#111111", "#777777", "#ffffff"


def draw(command: str, text: str) -> Image.Image:
    """Draw a command and its output."""
    lines = [command, *text.rstrip("\n").split("\n")]
    if longest := next((line for line in lines if len(line) > COLUMNS), None):
        raise ValueError(f"longer than {COLUMNS} columns: {longest}")
    fonts = Path(matplotlib.get_data_path(), "fonts", "ttf")
    font = ImageFont.truetype(fonts / "DejaVuSansMono.ttf", SIZE)
    width = round(font.getlength("m" * COLUMNS))
    picture = Image.new("RGB", (width + 2 * MARGIN, LINE * len(lines) + 2 * MARGIN), PAPER)
    pen = ImageDraw.Draw(picture)
    for number, line in enumerate(lines):
        pen.text((MARGIN, MARGIN + LINE * number), line, font=font, fill=INK if number else FAINT)
    return picture.quantize(32)


if __name__ == "__main__":
    draw(sys.argv[2], sys.stdin.read()).save(sys.argv[1], optimize=True)
