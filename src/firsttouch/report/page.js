// The report is complete without this script. It adds: the values of points in figures, series one at a time, tables
// that sort and filter, a search, and links that open what they lead to. docs/architecture.md says why it is not Vega.
"use strict";
(() => {
  const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
  const make = (tag, attributes = {}, text = "") => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.textContent = text;
    return made;
  };
  const plain = text => text.normalize("NFKD").toLowerCase();

  // ---- Permalinks: what the address names is opened, shown and marked.

  const isOfThisScreen = mark => getComputedStyle(mark.closest(".scroll")).display !== "none";
  const named = id => document.getElementById(id)
    || all("figure .scroll svg [data-p]").find(mark => mark.dataset.p === id && isOfThisScreen(mark));
  const reveal = target => {
    for (let at = target; at; at = at.parentElement) if (at.localName === "details") at.open = true;
    target.scrollIntoView({ block: target.localName === "section" || target.localName === "details" ? "start" : "center" });
  };
  const follow = () => {
    let id = location.hash.slice(1);
    try { id = decodeURIComponent(id); } catch { return; }
    const target = id && named(id);
    if (!target) return;
    reveal(target);
    if (target.dataset.p) showTip(target);
  };
  const linkTo = (id, words) => make("a", { class: "permalink", href: `#${id}`, "aria-label": words }, "#");
  for (const section of all("section[id]")) {
    const head = section.querySelector("h2");
    if (head) head.append(linkTo(section.id, `Link to: ${head.textContent}`));
  }
  for (const details of all("details[id]")) {
    const summary = details.querySelector("summary");
    summary.after(linkTo(details.id, `Link to: ${summary.textContent}`)); // a summary may hold no link
  }

  // ---- What is wider than the page says so, and scrolls by the arrow keys too.

  const hints = new Map();
  const scrolls = new ResizeObserver(entries => {
    for (const { target } of entries) {
      const wide = target.scrollWidth > target.clientWidth + 1;
      if (wide === hints.has(target)) continue;
      if (wide) {
        const about = target.closest("figure, section, details");
        const head = about && about.querySelector("figcaption b, h2, h3, summary");
        target.setAttribute("tabindex", "0");
        target.setAttribute("role", "group");
        target.setAttribute("aria-label", `${head ? head.firstChild.textContent.trim() : "Table"}, scrolls sideways`);
        hints.set(target, make("p", { class: "hint", "aria-hidden": "true" }, "scroll sideways \u2192"));
        const tools = target.previousElementSibling;
        (tools && tools.matches(".tools") ? tools : target).before(hints.get(target));
      } else {
        for (const name of ["tabindex", "role", "aria-label"]) target.removeAttribute(name);
        hints.get(target).remove();
        hints.delete(target);
      }
    }
  });
  for (const wide of all(".scroll")) scrolls.observe(wide);

  // ---- Points of a figure: the pointer shows one, arrow keys step through them, a click keeps its text.

  const tip = make("div", { class: "tip", role: "status" });
  tip.hidden = true;
  document.body.append(tip);
  let shown = null;
  const hideTip = () => {
    if (shown) shown.classList.remove("at");
    shown = null;
    tip.hidden = true;
    tip.classList.remove("pinned");
  };
  const showTip = (mark, pinned = false) => {
    hideTip();
    shown = mark;
    mark.classList.add("at");
    const [value, interval, ...conditions] = mark.dataset.t.split("\u00a6");
    tip.replaceChildren(make("b", {}, value));
    if (interval) tip.append(make("span", {}, `${mark.closest("figure").dataset.interval || "95 % interval"}: ${interval}`));
    tip.append(...conditions.map(text => make("span", {}, text)));
    if (pinned) tip.append(make("a", { href: `#${mark.dataset.p}` }, "Link to this point"));
    tip.classList.toggle("pinned", pinned);
    tip.hidden = false;
    const box = mark.getBoundingClientRect();
    const left = Math.min(box.right + 8, document.documentElement.clientWidth - tip.offsetWidth - 8);
    const above = box.top - tip.offsetHeight - 6;
    tip.style.left = `${Math.max(left, 4) + scrollX}px`;
    tip.style.top = `${(above > 0 ? above : box.bottom + 6) + scrollY}px`;
  };
  const isPinned = () => tip.classList.contains("pinned");
  document.addEventListener("pointerover", event => {
    if (isPinned()) return;
    const mark = event.target.closest("svg [data-t]");
    if (mark) showTip(mark);
    else if (shown && !tip.contains(event.target)) hideTip();
  });
  document.addEventListener("click", event => {
    const mark = event.target.closest("svg [data-t]");
    if (mark) showTip(mark, true);
    else if (!tip.contains(event.target) || event.target.closest("a")) hideTip();
  });
  document.addEventListener("keydown", event => { if (event.key === "Escape") hideTip(); });

  for (const svg of all("figure svg")) {
    svg.setAttribute("role", "group"); // what can be stepped through is no image; it keeps its name
    const points = all("[data-t]", svg);
    if (points.length) {
      svg.setAttribute("tabindex", "0");
      svg.setAttribute("aria-description", "Arrow keys show the points one by one, Enter keeps one.");
    }
    svg.addEventListener("keydown", event => {
      if (event.target !== svg) return;
      const visible = points.filter(mark => !mark.classList.contains("dim"));
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (step && visible.length) {
        const at = visible.indexOf(shown);
        showTip(visible[at < 0 ? (step > 0 ? 0 : visible.length - 1) : (at + step + visible.length) % visible.length]);
        event.preventDefault();
      } else if (event.key === "Enter" && points.includes(shown)) {
        showTip(shown, true);
        tip.querySelector("a").focus();
        event.preventDefault();
      }
    });
    svg.addEventListener("blur", () => { if (!isPinned()) hideTip(); });

    // A click on an entry of a legend shows its series alone, a second one all of them.
    const entries = all("[data-legend]", svg);
    const chosen = {};
    const isolate = entry => {
      const key = "c" in entry.dataset ? "c" : "d";
      chosen[key] = chosen[key] === entry.dataset[key] ? undefined : entry.dataset[key];
      for (const mark of all("[data-c], [data-d]", svg)) {
        const other = ["c", "d"].some(k => chosen[k] !== undefined && k in mark.dataset && mark.dataset[k] !== chosen[k]);
        mark.classList.toggle("dim", other);
      }
      for (const one of entries) {
        const k = "c" in one.dataset ? "c" : "d";
        one.setAttribute("aria-pressed", String(chosen[k] === one.dataset[k]));
      }
    };
    for (const entry of entries) {
      entry.setAttribute("role", "button");
      entry.setAttribute("tabindex", "0");
      entry.setAttribute("aria-pressed", "false");
      entry.setAttribute("aria-label", `${entry.textContent}: show only this series`);
      entry.addEventListener("click", () => isolate(entry));
      entry.addEventListener("keydown", event => {
        if (event.key !== "Enter" && event.key !== " ") return;
        isolate(entry);
        event.preventDefault();
      });
    }
  }

  // ---- Tables: a click on a heading sorts, a field above filters.

  const SCALE = { ns: 1e-9, us: 1e-6, ms: 1e-3, s: 1, B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40 };
  const amount = text => {
    const found = /^([-+\u2212\u00b1]?[\d.,]+(?:e[-+]?\d+)?)(?: ([^ ]+))?/.exec(text);
    if (!found) return null;
    const number = Number(found[1].replaceAll(",", "").replace("\u2212", "-").replace(/^[+\u00b1]/, ""));
    return Number.isNaN(number) ? null : number * (SCALE[found[2]] || 1);
  };
  const compare = (a, b) => {
    const [x, y] = [amount(a), amount(b)];
    if (x !== null && y !== null) return x - y;
    if (x !== null || y !== null) return x !== null ? -1 : 1;
    return a.localeCompare(b);
  };
  for (const table of all("table")) {
    const [head, body] = [table.tHead, table.tBodies[0]];
    if (!head || !body || body.rows.length < 3) continue;
    [...head.rows[0].cells].forEach((cell, column) => {
      const button = make("button", { type: "button" }, cell.textContent);
      cell.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = cell.getAttribute("aria-sort") === "ascending";
        for (const other of head.rows[0].cells) other.removeAttribute("aria-sort");
        cell.setAttribute("aria-sort", down ? "descending" : "ascending");
        const keyed = [...body.rows].map(row => [row.cells[column] ? row.cells[column].textContent.trim() : "", row]);
        keyed.sort((a, b) => (down ? -1 : 1) * compare(a[0], b[0]));
        body.append(...keyed.map(pair => pair[1]));
      });
    });
    if (body.rows.length < 8 || body.closest(".gpus")) continue;
    const field = make("input", { type: "search", placeholder: "filter rows", "aria-label": "Filter the rows of this table" });
    const left = make("span", { class: "soft", role: "status" });
    const tools = make("div", { class: "tools" });
    tools.append(field, left);
    (table.closest(".scroll") || table).before(tools);
    field.addEventListener("input", () => {
      const words = plain(field.value).split(/\s+/).filter(Boolean);
      let count = 0;
      for (const row of body.rows) {
        const text = plain([...row.cells].map(cell => cell.textContent).join(" "));
        row.hidden = !words.every(word => text.includes(word));
        count += !row.hidden;
      }
      left.textContent = words.length ? `${count} of ${body.rows.length} rows` : "";
    });
  }
  // The link to a row is made when the row is pointed at or a link leads to it.
  document.addEventListener("pointerover", event => {
    const row = event.target.closest("tr[id]");
    if (row && !row.querySelector(".permalink")) row.cells[0].append(linkTo(row.id, "Link to this point"));
  });

  // ---- The search goes through questions, answers, captions and tables, closed ones included.

  const places = all("main h1, main h2, main h3, main h4, main p, main li, main dd, main summary, main figcaption, main tr")
    .filter(place => !place.closest(".tip"));
  let texts = null;
  const nav = document.querySelector("nav");
  if (nav) {
    const box = make("div", { class: "search", role: "search" });
    const field = make("input", { type: "search", placeholder: "search this report", "aria-label": "Search this report" });
    const said = make("span", { class: "hidden-text", role: "status" });
    const list = make("ol");
    box.append(field, said, list);
    const contents = nav.querySelector(".contents");
    if (contents) {
      contents.querySelector("summary").after(box);
      contents.open = !matchMedia("(max-width: 76rem)").matches;
    } else nav.prepend(box);
    const jump = place => {
      if (!place.id) place.setAttribute("tabindex", "-1");
      for (const row of place.closest("table") ? [place.closest("tr")] : []) row.hidden = false;
      reveal(place);
      for (const old of all(".found")) old.classList.remove("found");
      place.classList.add("found");
      place.focus({ preventScroll: true });
    };
    field.addEventListener("input", () => {
      texts = texts || places.map(place => plain(place.textContent.replace(/\s+/g, " ").trim()));
      const words = plain(field.value).split(/\s+/).filter(Boolean);
      const hits = words.length && field.value.trim().length > 1
        ? places.filter((_, i) => words.every(word => texts[i].includes(word))) : [];
      const rank = place => (place.localName === "tr" ? 1 : 0);
      hits.sort((a, b) => rank(a) - rank(b));
      list.replaceChildren(...hits.slice(0, 12).map(place => {
        const link = make("a", { href: "#" });
        const text = place.textContent.replace(/#$/, "").replace(/\s+/g, " ").trim();
        const first = Math.max(0, plain(text).indexOf(words[0]) - 30);
        const head = place.closest("section") && place.closest("section").querySelector("h2");
        link.append(`${first ? "…" : ""}${text.slice(first, first + 110)}${text.length > first + 110 ? "…" : ""}`);
        if (head && head !== place) link.append(make("small", {}, head.firstChild.textContent));
        link.addEventListener("click", event => { event.preventDefault(); jump(place); });
        const item = make("li");
        item.append(link);
        return item;
      }));
      said.textContent = words.length ? `${hits.length} found` : "";
      if (words.length && !hits.length) list.append(make("li", {}, "Nothing found."));
      if (hits.length > 12) list.append(make("li", { class: "soft" }, `${hits.length - 12} more: add a word`));
    });
    field.addEventListener("keydown", event => {
      const first = list.querySelector("a");
      if (event.key === "Enter" && first) first.click();
      if (event.key === "Escape") { field.value = ""; list.replaceChildren(); said.textContent = ""; }
    });
  }

  // ---- Paper has what is open, and the machine with its caveats.

  let unfolded = [];
  addEventListener("beforeprint", () => {
    unfolded = all("details.printed:not([open])");
    for (const details of unfolded) details.open = true;
  });
  addEventListener("afterprint", () => { for (const details of unfolded) details.open = false; });

  addEventListener("hashchange", follow);
  follow();
})();
