// The table of docs/results/README.md: a file, a filter of words that a row must have, and the rows that have them.
const SHOWN = 300;
const place = document.getElementById("results");
place.innerHTML = `<p><label>File <select></select></label> <label>Rows with all of
  <input type="search" placeholder="facet minilm_multi en-de" size="40"></label> <span role="status"></span></p>
  <div class="md-typeset__scrollwrap"><table><thead></thead><tbody></tbody></table></div>`;
const [choice, words, count] = ["select", "input", "span"].map((name) => place.querySelector(name));

function line(cells, tag) {
  const row = document.createElement("tr");
  row.append(...cells.map((text) => Object.assign(document.createElement(tag), { textContent: text })));
  return row;
}

function show() {
  const [columns, ...rows] = RESULTS[choice.value];
  const wanted = words.value.toLowerCase().split(/\s+/);
  const found = rows.filter((row) => wanted.every((word) => row.some((cell) => cell.toLowerCase().includes(word))));
  const more = found.length > SHOWN ? `, the first ${SHOWN} are shown` : "";
  count.textContent = `${found.length} of ${rows.length} rows${more}`;
  place.querySelector("thead").replaceChildren(line(columns, "th"));
  place.querySelector("tbody").replaceChildren(...found.slice(0, SHOWN).map((row) => line(row, "td")));
}

choice.append(...Object.keys(RESULTS).map((name) => new Option(name)));
choice.value = "crosslingual_retrieval.csv";
choice.addEventListener("change", show);
words.addEventListener("input", show);
show();
