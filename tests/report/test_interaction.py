"""What a reader does with the report, in Chromium: point, click, sort, search, follow links; by keyboard or phone."""

from __future__ import annotations

from pathlib import Path

import pytest
import sample
from browser import CHROMIUM
from tests.kept_runs import stored_run

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium or google-chrome on the PATH")
STANDARD = Path(__file__).parents[2] / "results" / "h200-standard"
VISIBLE = "e.checkVisibility({visibilityProperty: true}) && !e.closest('.hidden-text')"
TIP = "document.querySelector('.tip')"
POINT = "[...document.querySelectorAll('main figure svg [data-t]')].find(e => e.checkVisibility())"


@pytest.fixture(scope="module")
def small(page, tmp_path_factory):
    path = tmp_path_factory.mktemp("small") / "report.html"
    path.write_text(page)
    return path


@pytest.fixture(scope="module")
def hostile(hostile_page, tmp_path_factory):
    path = tmp_path_factory.mktemp("hostile") / "report.html"
    path.write_text(hostile_page)
    return path


@pytest.fixture(scope="module")
def standard(tmp_path_factory):
    from firsttouch.report.page import write_report

    return write_report([STANDARD], tmp_path_factory.mktemp("standard") / "report.html")


@pytest.fixture(scope="module")
def applications(tmp_path_factory):
    from firsttouch.report.page import write_report

    return write_report([STANDARD.parent / "h200-apps"], tmp_path_factory.mktemp("apps") / "report.html")


SMALL_AND_STANDARD = ["small", pytest.param("standard", marks=pytest.mark.exhaustive)]


@pytest.fixture(params=SMALL_AND_STANDARD)
def path(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(autouse=True)
def _silent(browser):
    """No test may leave a message on the console or make a request."""
    yield
    assert browser.console == []
    assert browser.requests == []


def test_pointing_at_a_point_shows_its_value_interval_and_conditions(browser, path):
    browser.open(path)
    assert browser.run(f"{TIP}.hidden")
    browser.hover(POINT)
    assert browser.run(f"!{TIP}.hidden && {TIP}.checkVisibility()")
    value, interval, *conditions = browser.run("document.querySelector('svg .at').dataset.t").split("\N{BROKEN BAR}")
    told = browser.run(f"{TIP}.innerText").split("\n")
    assert told[0] == value
    assert (f"95 % interval: {interval}" in told) == bool(interval)
    assert told[-len(conditions) :] == conditions
    box = browser.run(f"(b => [b.left, b.right, b.top])({TIP}.getBoundingClientRect())")
    assert box[0] >= 0
    assert box[1] <= 1280
    assert box[2] >= 0
    browser.hover("document.querySelector('h1')")
    assert browser.run(f"{TIP}.hidden")


@pytest.mark.exhaustive
def test_the_text_of_a_cell_does_not_hide_the_cell_from_the_pointer(browser, applications):
    browser.open(applications)
    for i in (0, 5, 20):
        browser.hover(
            f"[...document.querySelectorAll('main figure svg [data-t]')].filter(e => e.checkVisibility())[{i}]"
        )
        assert browser.run(f"!{TIP}.hidden")


def test_arrow_keys_step_through_the_points_of_a_figure(browser, path):
    browser.open(path)
    browser.run(f"({POINT}).ownerSVGElement.focus()")
    assert browser.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    browser.press("ArrowRight")
    at = "[...document.querySelectorAll('svg [data-t]')].map(e => e.classList.contains('at'))"
    first = browser.run(at).index(True)
    browser.press("ArrowRight")
    assert [i for i, there in enumerate(browser.run(at)) if there] == [first + 1]
    browser.press("Enter")
    assert browser.run("document.activeElement.textContent") == "Link to this point"
    browser.press("Escape")
    assert browser.run(f"{TIP}.hidden")


def test_an_entry_of_a_legend_isolates_its_series(browser, path):
    browser.open(path)
    entries = "[...document.querySelectorAll('svg [data-legend][data-c]')].filter(e => e.checkVisibility())"
    browser.run(f"window.one = {entries}[1]; window.figure = one.ownerSVGElement; 0")
    browser.click("one")
    assert browser.run("one.getAttribute('aria-pressed')") == "true"
    bright = "[...figure.querySelectorAll('[data-t]')].filter(e => !e.classList.contains('dim')).map(e => e.dataset.c)"
    assert set(browser.run(bright)) == {browser.run("one.dataset.c")}
    assert browser.run("figure.querySelectorAll('[data-t].dim').length") > 0
    browser.click("one")
    assert browser.run("figure.querySelectorAll('.dim').length") == 0
    browser.run("one.focus()")
    browser.press("Enter")
    assert browser.run("figure.querySelectorAll('.dim').length") > 0


def test_tables_sort_and_filter(browser, path):
    browser.open(path)
    browser.run(
        "window.table = [...document.querySelectorAll('table')].find(t => t.querySelector('tr[id]')); window.column ="
        " [...table.tHead.rows[0].cells].findIndex(c => c.textContent === 'median');"
        " for (let e = table; e; e = e.parentElement) if (e.localName === 'details') e.open = true; 0"
    )
    texts = "[...table.tBodies[0].rows].filter(r => r.checkVisibility()).map(r => r.cells[column].textContent)"
    before = browser.run(texts)
    browser.click("table.tHead.rows[0].cells[column].querySelector('button')")
    up = browser.run(texts)
    browser.click("table.tHead.rows[0].cells[column].querySelector('button')")
    down = browser.run(texts)
    assert sorted(before) == sorted(up) == sorted(down)
    scale = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}

    def amount(text):
        number, _, unit = text.replace(",", "").partition(" ")
        return float(number) * scale.get(unit.partition(" ")[0], 1.0)

    assert [amount(t) for t in up] == sorted(amount(t) for t in before)
    assert [amount(t) for t in down] == sorted((amount(t) for t in before), reverse=True)
    word = browser.run("table.tBodies[0].rows[0].cells[0].textContent")
    browser.run("table.closest('.scroll').previousElementSibling.querySelector('input').focus()")
    browser.type(word)
    left = "[...table.tBodies[0].rows].filter(r => r.checkVisibility()).map(r => r.innerText)"
    kept = browser.run(left)
    assert len(kept) > 0
    assert all(word in text for text in kept)
    assert f"of {len(before)} rows" in browser.run("table.closest('.scroll').previousElementSibling.innerText")


def test_the_search_finds_what_is_closed_and_opens_it(browser, path):
    browser.open(path)
    wanted = browser.run(
        "(() => { const p = [...document.querySelectorAll('details:not([open]) p.answer')].at(-1);"
        " window.wanted = p; return p.textContent.trim().slice(0, 50); })()"
    )
    assert not browser.run("wanted.checkVisibility()")
    browser.run("document.querySelector('nav input').focus()")
    browser.type(wanted)
    assert browser.run("document.querySelectorAll('nav .search li a').length") >= 1
    browser.press("Enter")
    assert browser.run("document.querySelector('.found').checkVisibility()")
    assert wanted[:40] in browser.run("document.querySelector('.found').textContent")
    box = browser.run("(b => [b.top, b.bottom])(document.querySelector('.found').getBoundingClientRect())")
    assert 0 <= box[0] < 900
    browser.run("document.querySelector('nav input').focus()")
    browser.type(" zzzz")
    assert "Nothing found" in browser.run("document.querySelector('nav .search').innerText")


def test_a_link_to_a_point_opens_and_marks_it(browser, path):
    browser.open(path)
    name = browser.run("[...document.querySelectorAll('tr[id]')].at(-1).id")
    browser.open(path, f"#{name}")
    row = f"document.getElementById('{name}')"
    assert browser.run(f"{row}.checkVisibility()")
    assert 0 <= browser.run(f"{row}.getBoundingClientRect().top") < 900
    marked, other = (
        browser.run(f"getComputedStyle({e}).backgroundColor") for e in (row, "document.querySelector('h1')")
    )
    assert marked != other
    section = browser.run("[...document.querySelectorAll('details[id]')].at(-1).id")
    browser.run(f"location.hash = '{section}'; new Promise(done => setTimeout(done, 50))")
    assert browser.run(f"document.getElementById('{section}').open")


@pytest.mark.exhaustive
def test_hostile_text_stays_text(browser, hostile):
    browser.open(hostile)
    browser.hover(POINT)
    assert browser.run(f"{TIP}.querySelectorAll('script, img, iframe').length") == 0
    browser.run("document.querySelector('nav input').focus()")
    browser.type("<script>")
    assert browser.run("document.querySelectorAll('nav .search li').length") > 0
    assert browser.run("document.querySelectorAll('nav .search script, nav .search img').length") == 0
    browser.open(hostile, "#%E0%A4%A")
    browser.open(hostile, "#']<img src=x>")


def test_without_scripts_the_page_is_complete(browser, path):
    browser.open(path, script=False)
    assert browser.run("document.querySelectorAll('.tip, nav input, th button').length") == 0
    assert browser.run("document.querySelectorAll('figure svg').length") > 0
    browser.click("document.querySelector('details.on-demand > summary')")
    assert browser.run("document.querySelector('details.on-demand').open")


def test_every_control_is_reached_by_tab_and_shows_the_focus(browser, path):
    browser.open(path)
    seen, unmarked = set(), []
    for _ in range(80):
        browser.press("Tab")
        found = browser.run(
            "(e => [e.localName, e.hasAttribute('data-legend'), getComputedStyle(e).outlineStyle !== 'none'"
            " && parseFloat(getComputedStyle(e).outlineWidth) > 0])(document.activeElement)"
        )
        kind = "legend" if found[1] else found[0]
        seen.add(kind)
        if not found[2] and kind != "body":
            unmarked.append(kind)
    assert {"input", "a", "svg", "legend", "summary"} <= seen
    assert unmarked == []


CLIPPED = f"""
[...document.querySelectorAll('body *')].filter(e => {{
  if (!({VISIBLE}) || e.closest('svg') && e.localName !== 'text') return false;
  if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) return false;
  const range = document.createRange();
  range.selectNodeContents(e);
  const box = range.getBoundingClientRect();
  if (!box.width) return false;
  for (let at = e; at; at = at.parentElement) {{
    const style = getComputedStyle(at);
    if (/auto|scroll/.test(style.overflowX)) return false;
    if (/hidden|clip/.test(style.overflowX) && box.right > at.getBoundingClientRect().right + 1) return true;
  }}
  return box.right > innerWidth + 1 || box.left < -1;
}}).map(e => e.localName + ': ' + e.textContent.slice(0, 60))
"""


@pytest.mark.parametrize(
    "name", ["small", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("hostile", "standard"))]
)
def test_on_a_phone_nothing_scrolls_sideways_or_is_clipped(browser, name, request):
    path = request.getfixturevalue(name)
    browser.open(path, width=390, height=844, phone=True)
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.run("document.documentElement.scrollWidth") <= 390
    clipped = browser.run(CLIPPED)
    assert [
        c for c in clipped if name != "hostile" or not c.startswith("text:")
    ] == []  # numbers of 90 digits in figures


OUTSIDE = """
[...document.querySelectorAll('figure svg')].flatMap(svg => {
  const around = svg.getBoundingClientRect();
  return around.width ? [...svg.querySelectorAll('text')].filter(e => {
    const b = e.getBoundingClientRect();
    return b.width && (b.left < around.left - 1 || b.right > around.right + 1
      || b.top < around.top - 1 || b.bottom > around.bottom + 1);
  }).map(e => e.textContent) : [];
})
"""
OVERFLOWING = """
[...document.querySelectorAll('td, th')].filter(e => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1)
  .map(e => e.textContent)
"""
LONG = "std::map<std::string,std::vector<double,std::allocator<double>>>::operator_index(std::string_const_reference)"


@pytest.mark.parametrize("width", [1280, 390])
def test_no_text_leaves_its_figure_or_its_cell(browser, small, width):
    browser.open(small, width=width)
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.run(OUTSIDE) == []
    assert browser.run(OVERFLOWING) == []


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("width", [1280, 390])
def test_long_names_of_functions_and_files_are_broken(browser, width, tmp_path):
    from tests.profile.profiles import MiB, write

    from firsttouch.profile import schema
    from firsttouch.report.profile import write_profile

    names = [LONG, f"/a/{'very/' * 12}long/path", "x" * 90, "[heap]"]
    rows = [schema.Mapping(name, 1, 900 * MiB, 200 * MiB, 0) for name in names]
    page = write_profile([write(tmp_path / "p", schema.Mappings(t=1.0, key=0, rows=rows))])
    assert LONG in page.read_text().replace("<wbr>", "").replace("&lt;", "<").replace("&gt;", ">")
    browser.open(page, width=width)
    assert browser.run(OVERFLOWING) == []
    if width == 1280:
        assert browser.run("[...document.querySelectorAll('.scroll')].every(e => e.scrollWidth <= e.clientWidth)")


def test_what_scrolls_sideways_says_so_and_can_be_reached_by_keys(browser, small):
    told = """new Promise(done => requestAnimationFrame(() => setTimeout(() => done(
      [...document.querySelectorAll('.scroll')].filter(e => e.checkVisibility()).map(e => [
        e.scrollWidth > e.clientWidth + 1, e.tabIndex === 0 && !!e.ariaLabel, [e.previousElementSibling,
        e.previousElementSibling?.previousElementSibling].some(p => p?.matches('.hint'))])))))"""
    for width, some in ((390, True), (1280, False)):
        browser.open(small, width=width)
        found = browser.run(told)
        assert any(wide for wide, *_ in found) == some
        assert all(wide == reached == said for wide, reached, said in found)


ACCESSIBLE = """
(() => {
  const focusable = 'a[href], button, input, summary, [tabindex="0"]';
  const heads = [...document.querySelectorAll('h1, h2, h3, h4')].filter(e => e.checkVisibility());
  return {
    nested: [...document.querySelectorAll('summary, button, a, [role=img]')].filter(e => e.querySelector(focusable)),
    order: heads.filter((e, i) => i && e.localName[1] - heads[i - 1].localName[1] > 1),
    unnamed: [...document.querySelectorAll('button, th, a, input')]
      .filter(e => !(e.textContent.trim() || e.ariaLabel || e.placeholder)),
    ids: [...document.querySelectorAll('[id]')].filter((e, i, all) => all.findIndex(o => o.id === e.id) < i),
  };
})()
"""


@pytest.mark.parametrize("which", ["results", "profile", "comparison"])
def test_what_axe_asks_for(browser, small, which, undrawn, write, tmp_path):
    """Controls hold no controls, headings have an order, everything has a name."""
    from tests.profile import profiles

    from firsttouch.report.comparison import write_comparison
    from firsttouch.report.profile import write_profile

    page = small
    if which == "profile":
        page = write_profile([profiles.write(tmp_path / "p", profiles.mark(1.0, "a"))])
    elif which == "comparison":
        results = sample.results()
        results.records = [r for r in results.records if r.experiment in ("sharing", "latency")]
        page = write_comparison([str(write(results, side)) for side in "ab"], tmp_path / "c.html", None)
    browser.open(page)
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    for name in ("nested", "order", "unnamed", "ids"):
        assert browser.run(f"{ACCESSIBLE}.{name}.map(e => e.outerHTML.slice(0, 200))") == [], name


def test_the_first_screen_of_a_phone_has_the_advice(browser, undrawn, tmp_path):
    from firsttouch.report.page import write_report

    path = write_report([stored_run("h200-apps-1")], tmp_path / "report.html")
    browser.open(path, width=390, height=844, phone=True)
    assert browser.run("document.querySelector('.advice').getBoundingClientRect().bottom") < 844
    browser.click("document.querySelector('.contents summary')")
    assert browser.run(
        "document.querySelector('.contents').open && !!document.querySelector('.contents .search input')"
    )


def test_on_paper_nothing_is_clipped_and_closed_parts_leave_no_trace(browser, path):
    browser.open(path, width=688, height=980)  # A4 without its margins
    browser.call("Emulation.setEmulatedMedia", media="print")
    try:
        shown = "[...document.querySelectorAll('summary, nav, .tools, .permalink')].filter(e => e.checkVisibility())"
        assert browser.run(f"{shown}.length") == 0
        browser.run("dispatchEvent(new Event('beforeprint'))")
        assert browser.run("document.querySelector('.machine').innerText").count("The machine") == 1
        browser.run("dispatchEvent(new Event('afterprint'))")
        assert browser.run("document.querySelectorAll('.machine details[open]').length") == 0
        browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert browser.run("document.documentElement.scrollWidth") <= 688
        assert browser.run(CLIPPED) == []
    finally:
        browser.call("Emulation.setEmulatedMedia", media="")


OVERLAPPING = """
[...document.querySelectorAll('figure svg')].flatMap(svg => {
  const boxes = list => list.map(e => [e.textContent, e.getBoundingClientRect()]).filter(([t, b]) => t && b.width);
  const hits = found => found.flatMap(([t, b], i) => found.slice(i + 1).filter(([u, c]) =>
    Math.min(b.right, c.right) - Math.max(b.left, c.left) > 1
      && Math.min(b.bottom, c.bottom) - Math.max(b.top, c.top) > 2).map(([u]) => t + ' / ' + u));
  const axes = [...svg.querySelectorAll('g')].filter(g => !g.closest('[data-legend]'))
    .map(g => [...g.children].filter(e =>
      e.matches("text[text-anchor]:not([fill], [data-c], [data-t], [font-weight], [transform*='rotate(320'])")));
  return [...hits(boxes([...svg.querySelectorAll('[data-legend]')])), ...axes.flatMap(group => hits(boxes(group)))];
})
"""


@pytest.mark.parametrize("width", [1280, pytest.param(390, marks=pytest.mark.exhaustive)])
def test_no_label_lies_over_another(browser, path, width):
    browser.open(path, width=width)
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.run(OVERLAPPING) == []


CONTRAST = f"""
(() => {{
  const rgb = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = c => {{
    const [r, g, b] = c.slice(0, 3).map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  }};
  const behind = e => {{
    for (let at = e; at; at = at.parentElement) {{
      const c = rgb(getComputedStyle(at).backgroundColor);
      if (c.length === 3 || c[3] > 0) return c;
    }}
    return [255, 255, 255];
  }};
  return [...document.querySelectorAll('body *')].filter(e => {{
    if (!({VISIBLE}) || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) return false;
    const drawn = e.closest('svg');
    if (drawn && e.hasAttribute('fill') && !e.getAttribute('fill').startsWith('var(')) return false;  // on a cell
    const style = getComputedStyle(e);
    const [a, b] = [light(rgb(drawn ? style.fill : style.color)), light(behind(e))].sort((x, y) => x - y);
    return (b + .05) / (a + .05) < 4.5;
  }}).map(e => e.localName + '.' + e.getAttribute('class') + ': ' + e.textContent.slice(0, 40));
}})()
"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_has_the_contrast_that_wcag_asks_for(browser, path, dark):
    browser.open(path, dark=dark)
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.run(CONTRAST) == []
