"use strict";
// Zooming, searching and the panel of the selected node. Texts reach the page as text nodes only, never as markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const S = (at) => data.strings[at];
  const SVG = "http://www.w3.org/2000/svg";
  root.classList.add("js");

  const make = (name, attributes, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) {
      if (key === "click") made.addEventListener("click", value);
      else made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
  };

  // -- theme ---------------------------------------------------------------------------------------------------------
  const theme = byId("theme");
  const isDark = () =>
    root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const nameTheme = () => {
    theme.textContent = isDark() ? "Light" : "Dark";
    theme.setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours");
  };
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    nameTheme();
    state.sheet >= 0 && drawMap();
  });
  nameTheme();
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((found) => (found.open = true)));

  // -- boxes ---------------------------------------------------------------------------------------------------------
  const boxOf = (raw) => ({
    kind: S(raw[0]), op: S(raw[1]), ids: raw[2], types: S(raw[3]), label: S(raw[4]), params: raw[5].map(S),
    takes: raw[6].filter((_, at) => at % 2 === 0), ids_taken: raw[6].filter((_, at) => at % 2 === 1),
    where: S(raw[7]), code: S(raw[8]), derivative: S(raw[9]), capsule: raw[10] < 0 ? null : data.capsules[raw[10]],
    group: raw[11], refused: raw[12].map(S), inner: raw[13].map(([name, sheet]) => [S(name), sheet]),
    cost: raw[14].map((pair) => pair.map(S)), gives: [],
  });
  const boxes = data.sheets.map((sheet) => {
    const made = sheet.boxes.map(boxOf);
    made.forEach((box, at) => new Set(box.takes).forEach((source) => made[source].gives.push(at)));
    return made;
  });
  const idText = (box) => box.ids.map((id) => "%" + id).join(",");
  const nameOf = (box) => [idText(box), box.label || box.op].filter(Boolean).join(" ");
  const state = { sheet: -1, box: -1, zoom: [], selected: [], edges: [], place: [] };
  const panel = byId("panel");
  const stageOf = (sheet) => byId("s" + sheet).querySelector(".stage");
  const drawingOf = (sheet) => stageOf(sheet).querySelector("svg.graph");
  const elementOf = (sheet, at) => byId("b" + sheet + "-" + at);

  const placeOf = (sheet) => {
    if (!state.place[sheet]) {
      state.place[sheet] = boxes[sheet].map((_, at) => {
        const element = elementOf(sheet, at);
        const [x, y] = element.getAttribute("transform").match(/-?\d+/g).map(Number);
        const rect = element.querySelector("rect");
        return { x, y, w: +rect.getAttribute("width"), h: +rect.getAttribute("height") };
      });
    }
    return state.place[sheet];
  };
  const edgesOf = (sheet) => {
    if (!state.edges[sheet]) {
      const at = (state.edges[sheet] = boxes[sheet].map(() => ({ in: [], out: [] })));
      drawingOf(sheet).querySelectorAll(".e").forEach((edge) => {
        at[edge.dataset.s].out.push(edge);
        at[edge.dataset.t].in.push(edge);
      });
    }
    return state.edges[sheet];
  };

  // -- sheets --------------------------------------------------------------------------------------------------------
  const show = (sheet) => {
    if (sheet === state.sheet) return;
    if (state.sheet >= 0) {
      byId("s" + state.sheet).classList.remove("shown");
      state.selected[state.sheet] = state.box;
    }
    state.sheet = sheet;
    state.box = -1;
    byId("s" + sheet).classList.add("shown");
    byId("sheet").value = String(sheet);
    const stage = stageOf(sheet);
    if (state.zoom[sheet] === undefined) {
      const first = drawingOf(sheet).querySelector("a.n");
      drawingOf(sheet).querySelectorAll("a").forEach((link) => link.setAttribute("tabindex", "-1"));
      if (first) first.setAttribute("tabindex", "0");
      stage.addEventListener("scroll", () => requestAnimationFrame(drawMap), { passive: true });
      zoomTo(Math.max(Math.min(stage.clientWidth / sizeOf(sheet).width, 1), 0.7), null);
      const tops = placeOf(sheet).filter((place, _, all) => place.y === all[0].y);
      const middle = tops.reduce((sum, place) => sum + place.x + place.w / 2, 0) / Math.max(tops.length, 1);
      stage.scrollLeft = middle * state.zoom[sheet] - stage.clientWidth / 2;
      stage.scrollTop = 0;
    } else sayZoom();
    const before = state.selected[sheet];
    before >= 0 ? select(sheet, before, {}) : describeSheet();
    drawMap();
  };
  const sizeOf = (sheet) => {
    const [, , width, height] = drawingOf(sheet).getAttribute("viewBox").split(" ").map(Number);
    return { width, height };
  };

  // -- zoom ----------------------------------------------------------------------------------------------------------
  const sayZoom = () => (byId("scale").textContent = Math.round(100 * state.zoom[state.sheet]) + " %");
  const zoomTo = (zoom, focus) => {
    const stage = stageOf(state.sheet), svg = drawingOf(state.sheet), { width, height } = sizeOf(state.sheet);
    const next = Math.min(4, Math.max(0.02, zoom)), before = state.zoom[state.sheet] || 1;
    const at = focus || { x: stage.clientWidth / 2, y: stage.clientHeight / 2 };
    const left = Math.max(0, (stage.clientWidth - width * before) / 2);
    const x = (stage.scrollLeft + at.x - left) / before, y = (stage.scrollTop + at.y) / before;
    state.zoom[state.sheet] = next;
    svg.style.width = width * next + "px";
    svg.style.height = height * next + "px";
    const nowLeft = Math.max(0, (stage.clientWidth - width * next) / 2);
    stage.scrollLeft = x * next + nowLeft - at.x;
    stage.scrollTop = y * next - at.y;
    sayZoom();
    drawMap();
  };
  const fit = () => {
    const stage = stageOf(state.sheet), { width, height } = sizeOf(state.sheet);
    zoomTo(Math.min(stage.clientWidth / width, stage.clientHeight / height, 1.5), null);
  };
  const zoomBy = (how) => {
    const zoom = state.zoom[state.sheet];
    if (how === "fit") fit();
    else zoomTo(how === "one" ? 1 : how === "in" ? zoom * 1.25 : zoom / 1.25, null);
  };
  document.querySelectorAll("[data-zoom]").forEach((button) =>
    button.addEventListener("click", () => zoomBy(button.dataset.zoom)));
  document.querySelectorAll(".stage").forEach((stage) => {
    stage.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const at = stage.getBoundingClientRect();
      zoomTo(state.zoom[state.sheet] * Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.002)),
        { x: event.clientX - at.left, y: event.clientY - at.top });
    }, { passive: false });
    let held = null;
    stage.addEventListener("pointerdown", (event) => {
      if (event.button || event.pointerType === "touch" || event.target.closest(".map")) return;
      held = { x: event.clientX, y: event.clientY, left: stage.scrollLeft, top: stage.scrollTop, moved: false };
    });
    addEventListener("pointermove", (event) => {
      if (!held) return;
      const dx = event.clientX - held.x, dy = event.clientY - held.y;
      if (Math.abs(dx) + Math.abs(dy) > 4) held.moved = true;
      if (!held.moved) return;
      stage.classList.add("held");
      stage.scrollLeft = held.left - dx;
      stage.scrollTop = held.top - dy;
    });
    addEventListener("pointerup", () => {
      if (held && held.moved) {
        const stop = (event) => { event.preventDefault(); event.stopPropagation(); };
        addEventListener("click", stop, { capture: true, once: true });
        setTimeout(() => removeEventListener("click", stop, { capture: true }), 0);
      }
      held = null;
      stage.classList.remove("held");
    });
    stage.addEventListener("dragstart", (event) => event.preventDefault());
  });

  // -- overview ------------------------------------------------------------------------------------------------------
  const map = make("canvas", { class: "map", "aria-hidden": "true" });
  const drawMap = () => {
    const sheet = state.sheet, stage = stageOf(sheet), { width, height } = sizeOf(sheet), zoom = state.zoom[sheet];
    const host = byId("s" + sheet);
    const small = width * zoom <= stage.clientWidth * 2 && height * zoom <= stage.clientHeight * 4;
    if (small) return map.remove();
    host.classList.add("mapped");
    if (map.parentNode !== host) host.append(map);
    const scale = Math.min(110 / width, 0.75 * stage.clientHeight / height);
    const w = Math.max(12, Math.round(width * scale)), h = Math.round(height * scale), dense = devicePixelRatio || 1;
    map.width = w * dense;
    map.height = h * dense;
    map.style.width = w + "px";
    map.style.height = h + "px";
    map.style.top = stage.offsetTop + 10 + "px";
    map.style.right = host.clientWidth - stage.offsetLeft - stage.clientWidth + 10 + "px";
    const pen = map.getContext("2d"), style = getComputedStyle(root), across = w / width;
    pen.scale(dense, dense);
    placeOf(sheet).forEach((place, at) => {
      const group = boxes[sheet][at].group;
      pen.fillStyle = style.getPropertyValue(at === state.box ? "--mark" : group < 0 ? "--rim" : "--g" + (group % 8));
      const wide = at === state.box ? 4 : 1;
      pen.fillRect(place.x * across, place.y * scale, Math.max(wide, place.w * across), Math.max(wide, place.h * scale * 0.8));
    });
    pen.strokeStyle = style.getPropertyValue("--mark");
    pen.fillStyle = style.getPropertyValue("--glow");
    const view = [stage.scrollLeft / zoom * across, stage.scrollTop / zoom * scale,
      Math.min(w, stage.clientWidth / zoom * across), Math.min(h, stage.clientHeight / zoom * scale)];
    pen.fillRect(...view);
    pen.strokeRect(view[0] + 0.5, view[1] + 0.5, Math.max(2, view[2] - 1), Math.max(2, view[3] - 1));
  };
  const goTo = (event) => {
    if (event.buttons !== 1) return;
    const at = map.getBoundingClientRect(), stage = stageOf(state.sheet), { width, height } = sizeOf(state.sheet);
    const zoom = state.zoom[state.sheet];
    stage.scrollLeft = (event.clientX - at.left) / at.width * width * zoom - stage.clientWidth / 2;
    stage.scrollTop = (event.clientY - at.top) / at.height * height * zoom - stage.clientHeight / 2;
  };
  map.addEventListener("pointerdown", goTo);
  map.addEventListener("pointermove", goTo);
  addEventListener("resize", () => state.sheet >= 0 && drawMap());

  // -- selection -----------------------------------------------------------------------------------------------------
  const clearMarks = () => {
    document.querySelectorAll(".n.on,.n.near").forEach((found) => {
      found.classList.remove("on", "near");
      found.removeAttribute("aria-current");
    });
    document.querySelectorAll(".e.in,.e.out").forEach((found) => found.classList.remove("in", "out"));
    document.querySelectorAll(".e.link").forEach((found) => found.remove());
  };
  const select = (sheet, at, { focus = false, centre = false } = {}) => {
    show(sheet);
    clearMarks();
    state.box = at;
    state.selected[sheet] = at;
    const element = elementOf(sheet, at), box = boxes[sheet][at], place = placeOf(sheet);
    drawingOf(sheet).querySelectorAll('a.n[tabindex="0"]').forEach((found) => found.setAttribute("tabindex", "-1"));
    element.setAttribute("tabindex", "0");
    element.setAttribute("aria-current", "true");
    element.classList.add("on");
    const edges = edgesOf(sheet)[at];
    edges.in.forEach((edge) => edge.classList.add("in"));
    edges.out.forEach((edge) => edge.classList.add("out"));
    new Set([...box.takes, ...box.gives]).forEach((other) => elementOf(sheet, other).classList.add("near"));
    const link = (from, to, way) => {
      const a = place[from], b = place[to], x = a.x + a.w / 2, y = a.y + a.h, u = b.x + b.w / 2, v = b.y;
      const path = document.createElementNS(SVG, "path");
      path.setAttribute("class", "e link " + way);
      path.setAttribute("d", `M${x} ${y}C${x} ${y + 60} ${u} ${v - 60} ${u} ${v}`);
      drawingOf(sheet).prepend(path);
    };
    edges.in.filter((edge) => edge.matches(".far")).forEach((edge) => link(+edge.dataset.s, at, "in"));
    edges.out.filter((edge) => edge.matches(".far")).forEach((edge) => link(at, +edge.dataset.t, "out"));
    if (centre) bring(sheet, at);
    if (focus) element.focus({ preventScroll: true });
    describe(sheet, at);
    drawMap();
  };
  const bring = (sheet, at) => {
    const stage = stageOf(sheet), zoom = state.zoom[sheet], place = placeOf(sheet)[at];
    const x = place.x * zoom, y = place.y * zoom, w = place.w * zoom, h = place.h * zoom;
    const inside = x >= stage.scrollLeft && x + w <= stage.scrollLeft + stage.clientWidth
      && y >= stage.scrollTop && y + h <= stage.scrollTop + stage.clientHeight;
    if (inside) return;
    stage.scrollLeft = x + w / 2 - stage.clientWidth / 2;
    stage.scrollTop = y + h / 2 - stage.clientHeight / 2;
  };
  const clear = () => {
    clearMarks();
    state.box = -1;
    state.selected[state.sheet] = -1;
    describeSheet();
    drawMap();
  };

  // -- panel ---------------------------------------------------------------------------------------------------------
  const glyph = (group) => {
    const svg = document.createElementNS(SVG, "svg"), path = document.createElementNS(SVG, "path");
    svg.setAttribute("viewBox", "0 0 10 10");
    svg.setAttribute("class", "glyph g" + (group % 8));
    svg.setAttribute("aria-hidden", "true");
    path.setAttribute("class", "glyph");
    path.setAttribute("d", data.shapes[group % 8]);
    svg.append(path);
    return svg;
  };
  const list = (pairs) => {
    const made = make("dl");
    pairs.forEach(([name, value]) => made.append(make("dt", {}, name), make("dd", {}, value)));
    return made;
  };
  const links = (sheet, found, text) => {
    const made = make("div", { class: "links" });
    found.forEach(([at, name]) => made.append(make("button", {
      type: "button", click: () => select(sheet, at, { focus: true, centre: true }) }, text ? text(at, name) : name)));
    return made;
  };
  const put = (...parts) => panel.replaceChildren(...parts.filter(Boolean));
  const opens = (pairs) => {
    const made = make("div", { class: "links" });
    pairs.forEach(([name, sheet]) => made.append(make("button", { type: "button", click: () => {
      show(sheet);
      const first = drawingOf(sheet).querySelector("a.n");
      if (first) first.focus({ preventScroll: true });
    } }, name)));
    return made;
  };
  const describe = (sheet, at) => {
    const box = boxes[sheet][at], capsule = box.capsule, all = boxes[sheet];
    const h4 = (text) => make("h4", {}, text);
    const params = box.params.filter(Boolean);
    const takes = box.takes.map((source, i) => [source, `%${box.ids_taken[i]} ${all[source].label || all[source].op}`]);
    const parts = [
      make("h3", {}, box.label || box.op),
      make("p", {}, make("code", {}, [idText(box), box.types].filter(Boolean).join(": "))),
      box.label ? make("p", {}, box.kind) : null,
      box.derivative ? make("p", {}, "part of the derivative of " + box.derivative) : null,
    ];
    if (box.where) parts.push(h4("Line"), make("p", {}, box.where), box.code ? make("pre", {}, box.code) : null);
    if (takes.length) parts.push(h4("Takes"), links(sheet, takes));
    if (box.gives.length) {
      const gives = box.gives.slice(0, 24).map((target) => [target, nameOf(all[target])]);
      parts.push(h4(`Used by ${box.gives.length}`), links(sheet, gives));
    }
    if (box.inner.length) {
      parts.push(h4("Holds"), opens(box.inner.map(([name, inner]) => [`${name}: ${S(data.sheets[inner].title)}`, inner])));
    }
    if (params.length) parts.push(h4("Parameters"), ...params.map((text) => make("p", {}, make("code", {}, text))));
    if (box.cost.length) parts.push(h4("Cost"), list(box.cost));
    if (capsule) {
      parts.push(h4("Run by"), make("p", {}, glyph(capsule.group), make("strong", {}, capsule.name)), list(capsule.facts));
      parts.push(h4("Claims and what stands behind them"), make("ul", {}, ...capsule.contracts.map(
        ([field, claim, evidence, stands]) => make("li", {}, make("strong", {}, field + ": "), claim + "; " + evidence,
          stands ? make("em", {}, ` (${stands})`) : ""))));
    }
    if (box.refused.length) {
      parts.push(h4("Passed over for it"), make("ul", { class: "warn" }, ...box.refused.map((text) => make("li", {}, text))));
    } else if (capsule) parts.push(h4("Passed over for it"), make("p", {}, "nothing: it is the first that implements the op"));
    put(...parts);
    panel.scrollTop = 0;
  };
  const describeSheet = () => {
    const sheet = data.sheets[state.sheet], all = boxes[state.sheet];
    const count = (kinds) => all.filter((box) => kinds.includes(box.kind)).length;
    const key = (name, text) => make("p", {}, make("kbd", {}, name), " " + text);
    put(
      make("h3", {}, S(sheet.title)),
      S(sheet.place) ? make("p", {}, S(sheet.place)) : null,
      list([["nodes", String(count(["node", "constant"]))], ["inputs", String(count(["input"]))], ["results", String(count(["result"]))]]),
      sheet.parent === null ? null : make("h4", {}, "Inside"),
      sheet.parent === null ? null : opens([[S(data.sheets[sheet.parent].title), sheet.parent]]),
      make("h4", {}, "Click a node for what it is, where it comes from and what runs it"),
      key("/", "search"), key("↑ ↓", "to an operand, to a user"), key("← →", "along the row"),
      key("+ − 0", "zoom, fit"), key("Esc", "clear"),
      make("p", {}, make("kbd", {}, "Ctrl"), " + wheel zooms; drag to move"),
    );
  };

  // -- keys and clicks -----------------------------------------------------------------------------------------------
  const anchor = (text) => {
    const found = /^#?r?b(\d+)-(\d+)$/.exec(text || "");
    return found && boxes[found[1]] && boxes[found[1]][found[2]] ? [Number(found[1]), Number(found[2])] : null;
  };
  const besides = (sheet, at, step) => {
    const place = placeOf(sheet), here = place[at];
    let best = -1;
    place.forEach((other, i) => {
      if (other.y !== here.y || (other.x - here.x) * step <= 0) return;
      if (best < 0 || (place[best].x - other.x) * step > 0) best = i;
    });
    return best;
  };
  document.addEventListener("click", (event) => {
    const link = event.target.closest && event.target.closest("a[href^='#']");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const href = link.getAttribute("href"), own = anchor(link.id), target = own || anchor(href);
    const sheet = /^#s(\d+)$/.exec(href);
    if (sheet) {
      event.preventDefault();
      show(Number(sheet[1]));
      byId("graph").scrollIntoView();
    } else if (target && (own || !href.startsWith("#r"))) {
      event.preventDefault();
      select(...target, { focus: true, centre: !own });
      if (!own && !link.closest("svg")) byId("graph").scrollIntoView();
    }
  });
  document.addEventListener("focusin", (event) => {
    const found = event.target.matches && event.target.matches("a.n") && anchor(event.target.id);
    if (found && (found[0] !== state.sheet || found[1] !== state.box) && event.target.matches(":focus-visible")) {
      select(...found, { centre: true });
    }
  });
  const isTyping = (target) => target.matches("input, select, textarea");
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || state.sheet < 0) return;
    if (event.key === "/" && !isTyping(event.target)) {
      event.preventDefault();
      find.focus();
      find.select();
    } else if (event.key === "Escape") {
      if (find.value || !hits.hidden) search("");
      else clear();
      if (document.activeElement === find) find.blur();
    } else if (isTyping(event.target) || event.target.closest("#hits, .plot")) {
      return;
    } else if ("+=-0".includes(event.key) && event.key) {
      zoomBy({ "+": "in", "=": "in", "-": "out", 0: "fit" }[event.key]);
    } else if (event.target.matches("a.n")) {
      const [sheet, at] = anchor(event.target.id), box = boxes[sheet][at];
      const next = { ArrowUp: box.takes[0], ArrowDown: box.gives[0], ArrowLeft: besides(sheet, at, -1),
        ArrowRight: besides(sheet, at, 1), Home: 0, End: boxes[sheet].length - 1, " ": at }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      if (next >= 0) select(sheet, next, { focus: true, centre: true });
    }
  });
  if (byId("sheet")) byId("sheet").addEventListener("change", (event) => show(Number(event.target.value)));

  // -- search --------------------------------------------------------------------------------------------------------
  const find = byId("find"), hits = byId("hits"), count = byId("count");
  const found = { list: [], at: -1, texts: null };
  const texts = () => found.texts || (found.texts = boxes.map((all) => all.map((box) => [
    idText(box), box.op, box.label, box.types, box.params.join(" "), box.where, box.code,
    box.capsule ? box.capsule.name : "", box.derivative ? "derivative of " + box.derivative : "",
    box.kind].join("\n").toLowerCase())));
  const matches = (text, box, terms) => terms.every((term) =>
    /^%\d+$/.test(term) ? box.ids.includes(Number(term.slice(1))) : text.includes(term));
  const search = (query) => {
    if (find.value !== query) find.value = query;
    document.querySelectorAll(".n.hit").forEach((element) => element.classList.remove("hit"));
    document.querySelectorAll(".finding").forEach((element) => element.classList.remove("finding"));
    const terms = query.toLowerCase().split(/\s+/).filter(Boolean);
    found.list = [];
    found.at = -1;
    hits.hidden = !terms.length;
    hits.replaceChildren();
    count.textContent = "";
    if (!terms.length) return;
    texts().forEach((all, sheet) => all.forEach((text, at) => {
      if (matches(text, boxes[sheet][at], terms)) found.list.push([sheet, at]);
    }));
    const exact = ([sheet, at]) => { // what it is called comes before what its line says
      const box = boxes[sheet][at], named = [box.op, box.label, box.capsule ? box.capsule.name : ""].join(" ").toLowerCase();
      return terms.includes(box.op.toLowerCase()) ? 2 : terms.some((term) => named.includes(term)) ? 1 : 0;
    };
    found.list.sort((one, other) => (other[0] === state.sheet) - (one[0] === state.sheet)
      || exact(other) - exact(one) || one[0] - other[0] || one[1] - other[1]);
    found.list.forEach(([sheet, at]) => elementOf(sheet, at).classList.add("hit"));
    document.querySelectorAll(".stage svg.graph").forEach((element) => element.classList.add("finding"));
    count.textContent = found.list.length + (found.list.length === 1 ? " node" : " nodes");
    found.list.slice(0, 60).forEach(([sheet, at], i) => {
      const box = boxes[sheet][at], elsewhere = sheet === state.sheet ? "" : ` in ${S(data.sheets[sheet].title)}`;
      hits.append(make("li", {}, make("button", { type: "button", click: () => goToHit(i, true) },
        nameOf(box) + " ", make("small", {}, [box.types, box.where].filter(Boolean).join(" · ") + elsewhere))));
    });
    if (!found.list.length) hits.append(make("li", {}, make("small", {}, "Nothing is called that.")));
  };
  const goToHit = (at, close) => {
    if (!found.list.length) return;
    found.at = (at + found.list.length) % found.list.length;
    if (close) hits.hidden = true;
    count.textContent = `${found.at + 1} of ${found.list.length}`;
    select(...found.list[found.at], { centre: true, focus: close });
  };
  if (find) {
    find.addEventListener("input", () => search(find.value));
    find.addEventListener("focus", () => (hits.hidden = !find.value.trim()));
    find.addEventListener("keydown", (event) => {
      if (event.key === "Enter") {
        event.preventDefault();
        goToHit(found.at + (event.shiftKey ? -1 : 1), false);
        hits.hidden = true;
      } else if (event.key === "ArrowDown" && hits.querySelector("button")) {
        event.preventDefault();
        hits.querySelector("button").focus();
      }
    });
    hits.addEventListener("keydown", (event) => {
      const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
      if (!step) return;
      event.preventDefault();
      const next = event.target.closest("li")[step];
      next ? next.firstElementChild.focus() : event.key === "ArrowUp" && find.focus();
    });
    document.addEventListener("pointerdown", (event) => {
      if (!event.target.closest(".find")) hits.hidden = true;
    });
  }

  // -- legend: a pressed group is shown, the others fade -------------------------------------------------------------
  document.querySelectorAll(".legend button").forEach((button) => button.addEventListener("click", () => {
    const pressed = button.getAttribute("aria-pressed") !== "true";
    search("");
    document.querySelectorAll(".legend button").forEach((other) => other.setAttribute("aria-pressed", "false"));
    if (!pressed) return;
    button.setAttribute("aria-pressed", "true");
    const svg = drawingOf(state.sheet);
    svg.classList.add("finding");
    boxes[state.sheet].forEach((box, at) =>
      box.group === Number(button.dataset.group) && elementOf(state.sheet, at).classList.add("hit"));
  }));

  // -- charts --------------------------------------------------------------------------------------------------------
  data.charts.forEach((chart, number) => {
    const svg = byId("chart" + number);
    if (!chart || !svg || !chart.points.length) return;
    const cursor = svg.querySelector(".cursor"), figure = svg.closest(".plot"), told = make("output");
    figure.append(told);
    figure.tabIndex = 0;
    let at = -1;
    const point = (next) => {
      at = Math.max(0, Math.min(chart.points.length - 1, next));
      const [x, y, curve, xText, yText] = chart.points[at], scale = svg.clientWidth / svg.viewBox.baseVal.width;
      cursor.setAttribute("visibility", "visible");
      cursor.firstElementChild.setAttribute("d", `M${x} 34V270`);
      cursor.lastElementChild.setAttribute("cx", x);
      cursor.lastElementChild.setAttribute("cy", y);
      told.textContent = `${chart.x} ${xText}: ${yText} (${chart.names[curve]})`;
      const left = Math.min(Math.max(0, x * scale - told.offsetWidth / 2 + 10), figure.clientWidth - told.offsetWidth - 4);
      told.style.transform = `translate(${left}px, ${Math.max(0, y * scale - 34)}px)`;
    };
    const hide = () => {
      cursor.setAttribute("visibility", "hidden");
      told.textContent = "";
    };
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
      const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
      let best = 0, least = Infinity;
      chart.points.forEach(([px, py], i) => {
        const distance = Math.abs(px - x) * 6 + Math.abs(py - y);
        if (distance < least) [best, least] = [i, distance];
      });
      point(best);
    });
    svg.addEventListener("pointerleave", hide);
    figure.addEventListener("blur", hide);
    figure.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, Home: -1e9, End: 1e9 }[event.key];
      if (!step) return;
      event.preventDefault();
      point(at + step);
    });
  });

  // -- start ---------------------------------------------------------------------------------------------------------
  const follow = () => {
    const target = anchor(location.hash);
    if (target && !location.hash.startsWith("#r")) select(...target, { centre: true });
  };
  if (data.sheets.length) {
    show(0);
    follow();
    addEventListener("hashchange", follow);
  }
})();
