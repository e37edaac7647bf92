// Tables that a click or a key sorts, and rows that controls filter. Without this file they are plain.
"use strict";

const sortValue = (cell) => cell.dataset.sort ?? cell.textContent.trim();

const asNumber = (text) => {
  const plain = text.replaceAll(",", "").replace("−", "-");
  return plain !== "" && Number.isFinite(Number(plain)) ? Number(plain) : null;
};

// Numbers come before texts, and what is missing last, in either direction.
function compareCells(a, b, sign) {
  const [x, y] = [sortValue(a), sortValue(b)];
  const missing = (text) => text === "" || text === "–";
  if (missing(x) || missing(y)) return missing(x) - missing(y);
  const [m, n] = [asNumber(x), asNumber(y)];
  if (m !== null && n !== null) return sign * (m - n);
  if (m !== null || n !== null) return m === null ? 1 : -1;
  return sign * x.localeCompare(y, "en");
}

function sortBy(table, column, direction) {
  const body = table.tBodies[0];
  const sign = direction === "descending" ? -1 : 1;
  const rows = [...body.rows];
  rows.sort((a, b) => compareCells(a.cells[column], b.cells[column], sign));
  body.append(...rows);
  [...table.tHead.rows[0].cells].forEach((head, i) =>
    head.setAttribute("aria-sort", i === column ? direction : "none"));
}

function makeSortable(table) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    if (!head.hasAttribute("aria-sort")) head.setAttribute("aria-sort", "none");
    const first = head.classList.contains("number") ? "descending" : "ascending";
    const other = { ascending: "descending", descending: "ascending" };
    button.addEventListener("click", () => {
      const now = head.getAttribute("aria-sort");
      sortBy(table, column, now === "none" ? first : other[now]);
    });
  });
}

// The rows of all boards answer to one set of controls; a board without a row left is hidden.
function makeFilters(form) {
  const controls = [...form.querySelectorAll("select[name]")];
  const search = form.querySelector("input[type=search]");
  const hide = form.querySelector("input[type=checkbox]");
  const rows = [...document.querySelectorAll("tr[data-row]")];
  const boards = [...document.querySelectorAll("section.board")];
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));

  for (const control of controls) {
    const values = new Set(rows.map((row) => row.dataset[control.name]));
    for (const value of [...values].sort()) control.append(new Option(value, value));
  }

  const passes = (row) =>
    controls.every((c) => c.selectedIndex === 0 || row.dataset[c.name] === c.value)
    && texts.get(row).includes(search.value.trim().toLowerCase())
    && !(hide.checked && row.dataset.rank === "0");

  function apply() {
    for (const row of rows) row.hidden = !passes(row);
    for (const board of boards) board.hidden = !board.querySelector("tr[data-row]:not([hidden])");
    const left = rows.filter((row) => !row.hidden).length;
    document.getElementById("shown").textContent =
      left ? `${left} of ${rows.length} entries` : "No entry is like that: choose less.";
  }

  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(apply));
  apply();
}

document.querySelectorAll("table.sortable").forEach(makeSortable);
const boardFilters = document.getElementById("board-filters");
if (boardFilters) {
  document.querySelectorAll("[data-script]").forEach((part) => { part.hidden = false; });
  makeFilters(boardFilters);
}
