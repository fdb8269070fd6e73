// The theme's search is a dialog without a name, which a screen reader can't announce.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
// Rows of a wide table say their columns' names where a phone shows them one below the other.
for (const table of document.querySelectorAll(".md-content table:not([class])")) {
  const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
  if (heads.length < 4) continue;
  table.dataset.many = "";
  for (const row of table.querySelectorAll("tbody tr")) {
    [...row.cells].forEach((cell, index) => cell.dataset.label = heads[index] ?? "");
  }
}
// What scrolls sideways can be scrolled by keys too. The theme takes that back where nothing hovers, as on a phone.
for (const code of document.querySelectorAll("pre > code")) {
  const focusable = () => {
    if (code.tabIndex !== 0 && code.scrollWidth > code.clientWidth) code.tabIndex = 0;
  };
  new MutationObserver(focusable).observe(code, {attributeFilter: ["tabindex"]});
  focusable();
}
