"""`make manual-pages`: write the generated pages anew."""

from manual.pages import DOCS, PAGES

for name, page in PAGES.items():
    (DOCS / name).write_text(page())
