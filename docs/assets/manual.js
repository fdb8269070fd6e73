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
