// Zoom, search and details of a tally flame graph. Plain script; the picture is complete without it.
(function () {
  "use strict";
  var svg = document.getElementById("flame");
  if (!svg) return;
  var side = +svg.dataset.side, charWidth = +svg.dataset.char, total = +svg.dataset.total;
  var width = svg.viewBox.baseVal.width - 2 * side, height = svg.viewBox.baseVal.height;
  var byId = function (id) { return document.getElementById(id); };
  var details = byId("details"), reset = byId("reset"), search = byId("search"), entry = null;
  // In a narrow window the note about frames that are not drawn would be over the legend.
  var note = document.querySelector(".right");
  var rest = [details.textContent.trim(), note ? note.textContent : ""].filter(Boolean).join(" \u00b7 ") || " ";
  if (note) note.parentNode.removeChild(note);
  details.textContent = rest;
  var pattern = "", wrong = "", zoomed = null, hits = [], hit = -1, cursor = null;

  // Names, and frames too small to draw, in preorder below the drawn frame `at`: name's number, depth below it, value.
  var small = { names: [], at: [], below: [] }, left = byId("small");
  if (left) small = JSON.parse(left.textContent);

  // One entry per frame: its element and its place in value units.
  var frames = Array.prototype.map.call(document.querySelectorAll("g.f"), function (g, at) {
    var title = g.querySelector("title"), words = title && title.textContent, cut = words && words.lastIndexOf("\n");
    var frame = {
      g: g, rect: g.querySelector("rect"), text: g.querySelector("text"), at: at,
      start: +g.dataset.s, value: +g.dataset.v, depth: +g.dataset.d,
      sign: g.dataset.p || "", name: title ? words.slice(0, cut) : small.names[+g.dataset.n], amount: title ? words.slice(cut + 1) : g.dataset.a
    };
    g.addEventListener("mouseover", function () { show(frame); hint(frame); });
    g.addEventListener("mouseout", function () { show(cursor); });
    g.addEventListener("click", function () { zoom(frame, true); });
    return frame;
  });

  // Frames too narrow for a label have no title of their own in the file.
  function hint(frame) {
    if (frame.g.querySelector("title")) return;
    var title = document.createElementNS("http://www.w3.org/2000/svg", "title");
    title.textContent = frame.name + "\n" + frame.amount;
    frame.g.insertBefore(title, frame.g.firstChild);
  }

  // The amount first: names may be long.
  function show(frame) {
    details.textContent = frame ? frame.amount + " \u2014 " + frame.name : rest;
  }

  // Template arguments first, then the middle: the last part tells names of one template apart.
  function shorten(name, room) {
    if (columns(name) <= room) return name;
    if (room < 3) return "";
    var plain = name.replace(/<[^<>]*>/g, "<>");
    while (/<[^<>]+<>[^<>]*>/.test(plain)) plain = plain.replace(/<[^<>]*<>[^<>]*>/g, "<>");
    plain = plain.replace(/<>/g, "<\u2026>");
    if (columns(plain) <= room) return plain;
    var last = plain.lastIndexOf("::"), tail = last > 0 ? "\u2026" + plain.slice(last) : "";
    if (tail && columns(tail) <= room) return tail;
    var letters = Array.from(tail || plain), keep = room - 1;
    return taken(letters, Math.ceil(keep / 2)).join("") + "\u2026" + taken(letters.reverse(), Math.floor(keep / 2)).reverse().join("");
  }

  // East Asian characters and emoji take two columns.
  var wide = /[\u1100-\u115f\u2e80-\u303e\u3041-\u4dbf\u4e00-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6]|[\ud83c-\ud83e][\udc00-\udfff]/;
  function columns(text) {
    if (!/[^\x00-\u10ff]/.test(text)) return text.length;
    return Array.from(text).reduce(function (sum, letter) { return sum + (wide.test(letter) ? 2 : 1); }, 0);
  }

  function taken(letters, room) {
    var at = 0;
    while (at < letters.length && (room -= columns(letters[at])) >= 0) at++;
    return letters.slice(0, at);
  }

  function label(frame, x, w) {
    var shown = shorten(frame.name, Math.floor((w - 6) / charWidth) - frame.sign.length);
    if (shown) shown = frame.sign + shown;
    if (!frame.text) {
      if (!shown) return;
      frame.text = document.createElementNS("http://www.w3.org/2000/svg", "text");
      frame.text.setAttribute("y", +frame.rect.getAttribute("y") + 12);
      frame.g.appendChild(frame.text);
    }
    frame.text.textContent = shown;
    frame.text.setAttribute("x", x + 3);
  }

  // Draws `target` over the whole width; its callers stay as full-width, pale rows.
  function zoom(target, isStep) {
    var whole = !target || target.depth === 0;
    var start = whole ? 0 : target.start, value = whole ? total : target.value;
    var end = start + value, scale = width / value;
    zoomed = whole ? null : target;
    frames.forEach(function (f) {
      var caller = !whole && f.depth < target.depth && f.start <= start && f.start + f.value >= end;
      var inside = whole || (f.depth >= target.depth && f.start >= start && f.start + f.value <= end);
      f.g.classList.toggle("hide", !caller && !inside);
      f.g.classList.toggle("off", caller);
      if (!caller && !inside) return;
      var x = caller ? side : side + (f.start - start) * scale;
      var w = caller ? width : f.value * scale;
      f.rect.setAttribute("x", x);
      f.rect.setAttribute("width", Math.max(w - 0.4, 0.2));
      label(f, x, w);
    });
    reset.classList.toggle("hide", whole);
    remember(isStep);
  }

  // The value that matches stand for, drawn or not; a match inside a match counts once.
  function share(found, test) {
    found.sort(function (a, b) { return a.start - b.start || b.value - a.value; });
    var sum = 0, covered = 0, ends = [];
    found.forEach(function (f) {
      if (!f.depth) return;
      var from = Math.max(f.start, covered), to = f.start + f.value;
      if (to > from) { sum += to - from; covered = to; ends.push([from, to]); }
    });
    var names = small.names.map(function (name) { return test.test(name); });
    small.at.forEach(function (at, i) {
      var frame = frames[at], list = small.below[i], passed = Infinity;
      if (ends.some(function (span) { return frame.start >= span[0] && frame.start + frame.value <= span[1]; })) return;
      for (var j = 0; j < list.length; j += 3) {
        if (list[j + 1] > passed) continue;
        passed = names[list[j]] ? list[j + 1] : Infinity;
        if (names[list[j]]) sum += list[j + 2];
      }
    });
    return sum;
  }

  // Marks matching frames and shows their share; a match inside a match counts once.
  function find(text) {
    var test = null;
    pattern = text || "";
    wrong = "";
    if (pattern) {
      try { test = new RegExp(pattern, "i"); } catch (error) { wrong = "no regular expression"; }
    }
    hit = -1;
    hits = frames.filter(function (f) {
      var is = !!test && f.depth > 0 && test.test(f.name);
      f.g.classList.toggle("hit", is);
      return is;
    });
    var sum = test ? share(hits.slice(), test) : 0;
    hits.sort(function (a, b) { return b.value - a.value; });
    found(sum);
    remember(false);
  }

  function found(sum) {
    var typed = entry === null ? "" : "_ ";
    var amount = wrong || (small.more ? "\u2265 " : "") + (100 * sum / total).toFixed(2) + " %";
    search.textContent = pattern || typed ? "/" + pattern + typed + " " + amount + (typed ? "" : " \u2014 clear search") : "search (/)";
  }

  function goTo(step) {
    if (!hits.length) return;
    hit = (hit + step + hits.length) % hits.length;
    mark(hits[hit]);
  }

  // The cursor: a frame that keys move.
  function mark(frame) {
    if (!frame) return;
    if (cursor) cursor.g.classList.remove("cursor");
    if (frame.g.classList.contains("hide")) zoom(null, false);
    cursor = frame;
    frame.g.classList.add("cursor");
    show(frame);
    frame.g.scrollIntoView({ block: "nearest" });
  }

  function near(key) {
    var now = cursor || zoomed || frames[0], end = now.start + now.value;
    var up = svg.dataset.up ? "ArrowUp" : "ArrowDown";
    var inside = function (f) { return f.depth === now.depth + 1 && f.start >= now.start && f.start + f.value <= end; };
    var around = function (f) { return f.depth === now.depth - 1 && f.start <= now.start && f.start + f.value >= end; };
    var row = frames.filter(function (f) { return f.depth === now.depth; }).sort(function (a, b) { return a.start - b.start; });
    if (key === "ArrowLeft" || key === "ArrowRight") return row[row.indexOf(now) + (key === "ArrowLeft" ? -1 : 1)];
    return frames.filter(key === up ? inside : around).sort(function (a, b) { return b.value - a.value; })[0];
  }

  // Names from the root to a frame: an address that outlives a new drawing.
  function pathOf(frame) {
    var path = [];
    frames.forEach(function (f) {
      if (f.depth > 0 && f.depth <= frame.depth && f.start <= frame.start && f.start + f.value >= frame.start + frame.value) path[f.depth - 1] = f.name;
    });
    return path.map(encodeURIComponent).join(",");
  }

  function remember(isStep) {
    var parts = [];
    if (pattern) parts.push("find=" + encodeURIComponent(pattern));
    if (zoomed) parts.push("zoom=" + pathOf(zoomed));
    var address = "#" + parts.join("&");
    try {
      if (isStep && address !== window.location.hash) window.history.pushState(null, "", address);
      else window.history.replaceState(null, "", address);
    } catch (error) { /* opened as a file */ }
  }

  function recall() {
    var state = {};
    window.location.hash.slice(1).split("&").forEach(function (part) {
      var at = part.indexOf("=");
      if (at > 0) state[part.slice(0, at)] = part.slice(at + 1);
    });
    var target = null;
    if (state.zoom) {
      frames.forEach(function (f) { if (!target && f.depth === state.zoom.split(",").length && pathOf(f) === state.zoom) target = f; });
    }
    zoom(target, false);
    find(decodeURIComponent(state.find || ""));
  }

  // The legend goes on in a new line where the window is narrow; the picture is taller then.
  var marks = document.querySelectorAll("#status rect:not(.back)"), folds = 16 * (+svg.dataset.folds || 0), tall = height - folds;
  function legend(wide) {
    var x = side, line = 0, first = marks.length ? +marks[0].getAttribute("y") : 0;
    Array.prototype.forEach.call(marks, function (mark) {
      var word = mark.nextElementSibling, long = 30 + (word.getComputedTextLength() || 7 * word.textContent.length);
      if (x > side && x + long - 14 > wide - side) { x = side; line++; }
      mark.setAttribute("x", x);
      word.setAttribute("x", x + 16);
      mark.setAttribute("y", first + 16 * line);
      word.setAttribute("y", first + 10 + 16 * line);
      x += long;
    });
    var ground = document.querySelector("#status .back");
    if (!ground.dataset.h) ground.dataset.h = ground.getAttribute("height") - folds;
    ground.setAttribute("height", +ground.dataset.h + 16 * line);
    height = tall + 16 * line;
    svg.setAttribute("height", height);
  }

  // As wide as the window, where the picture is the whole document.
  function fit() {
    if (document.documentElement !== svg || window.innerWidth < 200) return;
    var wide = Math.max(260, svg.clientWidth || window.innerWidth);
    width = wide - 2 * side;
    svg.setAttribute("width", "100%");
    legend(wide);
    svg.setAttribute("viewBox", "0 0 " + wide + " " + height);
    Array.prototype.forEach.call(document.querySelectorAll("#title,#subtitle"), function (text) { text.setAttribute("x", wide / 2); });
    Array.prototype.forEach.call(document.querySelectorAll("#search,.right"), function (text) { text.setAttribute("x", wide - side); });
    // The title is beside the button, not under it.
    var title = byId("title"), room = wide - 2 * (side + 70);
    title.style.fontSize = "";
    var long = title.getComputedTextLength();
    if (long > room) title.style.fontSize = Math.max(9, 17 * room / long) + "px";
    zoom(zoomed, false);
    stay();
  }

  // Heading and details stay in the window.
  function stay() {
    if (document.documentElement !== svg) return;
    var top = window.scrollY, foot = Math.min(0, top + window.innerHeight - height);
    byId("head").setAttribute("transform", "translate(0," + top + ")");
    byId("status").setAttribute("transform", "translate(0," + foot + ")");
  }

  // In the dark, frames keep their hue, and are as dark as those of the page. The style has the colours of states.
  var night = window.matchMedia ? window.matchMedia("(prefers-color-scheme: dark)") : null;
  var lit = Array.prototype.map.call(document.querySelectorAll(".f rect,.mark"), function (rect) {
    return { rect: rect, fill: rect.getAttribute("fill") };
  }).filter(function (of) { return (svg.dataset.states || "").split(" ").indexOf(of.fill) < 0; });
  function light() {
    if (!night) return;
    var known = {};
    lit.forEach(function (of) {
      of.rect.setAttribute("fill", night.matches ? known[of.fill] = known[of.fill] || darker(of.fill) : of.fill);
    });
    svg.classList.toggle("lit", night.matches);
  }

  // The same hue with seven tenths of the saturation; light and dark shades stay apart.
  function darker(fill) {
    var rgb = [1, 3, 5].map(function (at) { return parseInt(fill.slice(at, at + 2), 16) / 255; });
    var most = Math.max.apply(null, rgb), least = Math.min.apply(null, rgb), level = (most + least) / 2;
    var dark = 0.36 + (Math.min(level, 0.84) - 0.75) / 2, room = 1 - Math.abs(2 * level - 1);
    var chroma = room > 0 ? 0.7 * (1 - Math.abs(2 * dark - 1)) / room : 0;
    return "#" + rgb.map(function (part) {
      return ("0" + Math.round(255 * (dark + (part - level) * chroma)).toString(16)).slice(-2);
    }).join("");
  }

  reset.addEventListener("click", function () { zoom(null, true); });
  search.addEventListener("click", function () { if (pattern) find(""); else { entry = ""; find(""); } });
  window.addEventListener("resize", fit);
  window.addEventListener("scroll", stay);
  window.addEventListener("popstate", recall);
  window.addEventListener("keydown", function (event) {
    var key = event.key;
    if (entry !== null) return type(event);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (key === "/") { entry = ""; find(""); }
    else if (key === "n") goTo(1);
    else if (key === "N") goTo(-1);
    else if (key === "Enter" && cursor) zoom(cursor, true);
    else if (key === "0") zoom(null, true);
    else if (key.slice(0, 5) === "Arrow") mark(near(key));
    else if (key === "Escape") { if (pattern) find(""); else zoom(null, true); }
    else return;
    event.preventDefault();
  });

  // Typing a search, in place.
  function type(event) {
    var key = event.key;
    if (event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    if (key === "Escape") { entry = null; find(""); }
    else if (key === "Enter") { entry = null; find(pattern); goTo(1); }
    else if (key === "Backspace") find(entry = entry.slice(0, -1));
    else if (key.length === 1) find(entry += key);
  }

  if (night && night.addEventListener) night.addEventListener("change", light);
  recall();
  light();
  fit();
  // A flame graph grows upwards: begin at its foot, where the roots are.
  if (svg.dataset.up && !window.location.hash.slice(1)) window.scrollTo(0, document.documentElement.scrollHeight);
  stay();
})();
