"""`make manual-pages`: write the generated files anew."""

from manual import ROOT
from manual.pages import PAGES

for name, page in PAGES.items():
    (ROOT / name).write_text(page())
