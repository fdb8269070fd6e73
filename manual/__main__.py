"""`make manual-pages`: write the generated files anew."""

from manual.pages import PAGES, ROOT

for name, page in PAGES.items():
    (ROOT / name).write_text(page())
