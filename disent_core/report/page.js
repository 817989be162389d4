// Sorts a table by the column whose head is clicked. Numbers by the first one in a cell; empty cells are always last.
for (const head of document.querySelectorAll("thead tr:last-child th")) {
  head.tabIndex = 0;
  const sort = () => {
    const sign = head.ariaSort === "descending" ? 1 : -1;
    for (const other of head.parentNode.cells) other.ariaSort = null;
    head.ariaSort = sign < 0 ? "descending" : "ascending";
    const isNumber = head.classList.contains("number");
    const key = (row) => {
      const text = row.cells[head.cellIndex].textContent.trim();
      const number = /[-+]?[0-9][0-9,]*(\.[0-9]+)?/.exec(text);
      return isNumber ? number && Number(number[0].replaceAll(",", "")) : text || null;
    };
    const body = head.closest("table").tBodies[0];
    const rows = Array.from(body.rows, (row) => [key(row), row]);
    const order = (a, b) => (isNumber ? a - b : a.localeCompare(b, "en"));
    rows.sort(([a], [b]) => (a === null) - (b === null) || (a === null ? 0 : sign * order(a, b)));
    body.append(...rows.map(([, row]) => row));
  };
  head.addEventListener("click", sort);
  head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
}
