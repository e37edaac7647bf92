// The cases of a run. All texts go in as text nodes.
"use strict";

function make(tag, kind, ...children) {
  const element = document.createElement(tag);
  if (kind) element.className = kind;
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function startExplorer(runs) {
  const PAGE = 20;
  const by = (id) => document.getElementById(id);
  const articles = [...document.querySelectorAll("article.run")];
  let run = runs[0];
  let at = 0;

  // --- numbers -------------------------------------------------------------------------------
  function shown(value, measure) {
    if (value === null || value === undefined) return "–";
    return measure.times === 100 ? (100 * value).toFixed(1) : String(Number(value.toPrecision(3)));
  }

  const arrow = (measure) => ({ higher: " ↑", lower: " ↓" })[measure.better] ?? "";

  function fill(select, options) {
    const kept = select.value;
    select.replaceChildren(...options.map(([value, text]) => new Option(text, value)));
    if (options.some(([value]) => value === kept)) select.value = kept;
  }

  // --- one case ------------------------------------------------------------------------------
  function bar(side, name) {
    if (!side) return make("span", "bar quiet", `${name}: no answer`);
    const [probability, likeliest] = side;
    const fill = make("i");
    fill.style.width = `${100 * probability}%`;
    const percent = probability && probability < 1e-5 ? "< 0.001" : String(Number((100 * probability).toPrecision(3)));
    const text = `${name} ${percent} %${likeliest ? " · likeliest" : ""}`;
    return make("span", `bar ${name}`, fill, make("span", "", text));
  }

  function choices(rows, targets) {
    return make("div", "choices", ...rows.flatMap(([candidate, before, after]) => [
      make("bdi", `candidate ${targets.get(candidate) ?? ""}`, candidate),
      bar(before, "before"), bar(after, "after")]));
  }

  function verdict(found) {
    if (!found) return null;
    const words = { 0: "wrong", 1: "right" };
    const score = found.status === "decided" ? words[found.score] ?? `score ${found.score}` : found.status;
    const parts = [score, found.reverted ? "right before the edit" : "", found.note, found.served];
    const line = make("p", `verdict ${score}`, parts.filter(Boolean).join(" · "));
    if (!found.raw) return line;
    return make("div", "", line, make("details", "", make("summary", "quiet", "the judge’s own words"),
      make("p", "said", found.raw)));
  }

  function text(side, name) {
    return make("div", "side", make("h5", "", name),
      make("p", "said", side ? side.text.trim() || "(empty)" : "no answer"), verdict(side?.verdict));
  }

  function tagsOf(tags) {
    return Object.entries(tags ?? {}).map(([name, value]) => make("span", "tag", `${name}: ${value}`));
  }

  function probe(found, targets) {
    const parts = [make("p", "prompt", make("bdi", "", found.prompt), ...tagsOf(found.tags))];
    if (found.choices) parts.push(choices(found.choices, targets));
    for (const [forward, reverse] of found.moved ?? []) {
      parts.push(make("p", "moved", `moved by KL ${forward ?? "–"} nats, reversed ${reverse ?? "–"}`));
    }
    for (const [before, after] of found.texts ?? []) {
      parts.push(make("div", "sides", text(before, "before"), text(after, "after")));
    }
    return make("div", "probe", ...parts);
  }

  function contents(found) {
    const targets = new Map();
    for (const [, , fresh, old] of found.requests ?? []) {
      targets.set(old, "old");
      targets.set(fresh, "new");
    }
    const writes = (found.requests ?? []).map(([prompt, , fresh, old]) => make("p", "request",
      make("span", "label", "write "), make("bdi", "", prompt), " → ", make("bdi", "new", fresh),
      old ? make("span", "quiet", " instead of ") : null, old ? make("bdi", "", old) : null));
    const only = by("role").value;
    const groups = Object.entries(found.probes ?? {}).filter(([role]) => !only || role === only);
    const sections = groups.map(([role, probes]) => make("section", "",
      make("h4", "", role, make("span", "quiet", ` ${probes.length}`)),
      ...probes.map((p) => probe(p, targets))));
    const failed = { ok: null, invalid_case: "The case could not be used; it counts nowhere." };
    const fate = found.status in failed ? failed[found.status]
      : "The edit failed, so that there is no answer after it; the case counts as a failure.";
    return make("div", "inside", fate ? make("p", "message", fate) : null,
      found.message ? make("p", "message", found.message) : null,
      ...writes, make("p", "", ...tagsOf(found.tags)), values(found), ...sections,
      found.probes ? null : make("p", "quiet", `Its prompts and answers: edit-harness case RUN ${found.id}`));
  }

  function values(found) {
    const cells = run.measures.map((measure, i) => [measure, found.values[i]])
      .filter(([measure, pair]) => !measure.detail && pair[1] !== null)
      .map(([measure, [before, after]]) => make("span", "value", make("b", "", measure.name + arrow(measure)),
        ` ${shown(before, measure)} → ${shown(after, measure)}`));
    return make("p", "values", ...cells);
  }

  function card(found) {
    const [first] = found.requests ?? [];
    const order = run.measures.findIndex((measure) => measure.name === by("order").value);
    const title = first ? [make("bdi", "subject", first[1]), " → ", make("bdi", "new", first[2])]
      : [make("span", "quiet", "no request")];
    const notes = [found.status === "ok" ? null : make("span", "pill bad", found.status),
      found.noop ? make("span", "pill", "no-op") : null,
      order < 0 ? null : make("span", "pill", `${run.measures[order].name} ${shown(found.values[order][1], run.measures[order])}`)];
    const summary = make("summary", "", make("span", "number", `#${found.id}`), make("span", "title", ...title), ...notes);
    const details = make("details", "case", summary);
    details.addEventListener("toggle", () => {
      if (details.open && details.children.length === 1) details.append(contents(found));
    });
    return details;
  }

  // --- which cases ---------------------------------------------------------------------------
  const haystacks = new WeakMap();
  const textsOf = (part) => typeof part === "string" ? [part]
    : part && typeof part === "object" ? Object.values(part).flatMap(textsOf) : [];
  function haystack(found) {
    if (!haystacks.has(found)) haystacks.set(found, textsOf(found).join("\n").toLowerCase());
    return haystacks.get(found);
  }

  function chosen() {
    const [status, role, noop] = [by("status").value, by("role").value, by("noop").checked];
    const text = by("text").value.trim().toLowerCase();
    return run.cases.filter((found) => (!status || found.status === status)
      && (!role || Object.hasOwn(found.probes ?? {}, role))
      && (!noop || found.noop) && haystack(found).includes(text));
  }

  function ordered(cases) {
    const name = by("order").value;
    const i = run.measures.findIndex((measure) => measure.name === name);
    if (i < 0) return cases.sort((a, b) => a.place - b.place);
    const sign = run.measures[i].better === "lower" ? -1 : 1;
    const value = (found) => found.values[i][1];
    return cases.sort((a, b) => (value(a) === null) - (value(b) === null)
      || sign * (value(a) - value(b)) || a.place - b.place);
  }

  function showCases() {
    const cases = ordered(chosen());
    at = Math.max(0, Math.min(at, PAGE * Math.floor((cases.length - 1) / PAGE)));
    const end = Math.min(at + PAGE, cases.length);
    by("cases").replaceChildren(...cases.slice(at, end).map(card));
    by("found").textContent = cases.length
      ? `${cases.length.toLocaleString("en")} of ${run.cases.length.toLocaleString("en")} cases`
      : "No case is like that: choose less.";
    by("page").textContent = cases.length ? `${at + 1} – ${end} of ${cases.length.toLocaleString("en")}` : "";
    by("previous").disabled = at === 0;
    by("next").disabled = end >= cases.length;
  }

  const turn = (by_) => { at += by_; showCases(); by("explorer").scrollIntoView({ block: "start" }); };
  const anew = () => { at = 0; showCases(); };

  function showRun(number) {
    run = runs[number];
    articles.forEach((article, i) => { article.hidden = i !== number; });
    document.querySelectorAll(".share").forEach((line) => { line.hidden = line.dataset.run !== String(number); });
    fill(by("order"), [["", "those that failed first"], ...run.measures.filter((m) => m.better)
      .map((m) => [m.name, `worst ${m.name} first`])]);
    const distinct = (values) => [...new Set(values)].map((value) => [value, value]);
    fill(by("status"), [["", "any"], ...distinct(run.cases.map((c) => c.status))]);
    fill(by("role"), [["", "all"], ...distinct(run.cases.flatMap((c) => Object.keys(c.probes ?? {})))]);
    anew();
  }

  document.querySelectorAll("[data-script]").forEach((part) => { part.hidden = false; });
  by("which")?.addEventListener("input", () => showRun(Number(by("which").value)));
  document.querySelectorAll('a[href^="#run-"]').forEach((link) => link.addEventListener("click", () => {
    by("which").value = link.hash.slice("#run-".length);
    showRun(Number(by("which").value));
  }));
  by("filters").addEventListener("input", anew);
  by("filters").addEventListener("submit", (event) => event.preventDefault());
  by("previous").addEventListener("click", () => turn(-PAGE));
  by("next").addEventListener("click", () => turn(PAGE));
  showRun(0);
}

const embeddedData = document.getElementById("data");
if (embeddedData) startExplorer(JSON.parse(embeddedData.textContent).runs);
