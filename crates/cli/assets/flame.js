// Zoom, search and details of a tally flame graph. Plain script; the picture is complete without it.
(function () {
  "use strict";
  var svg = document.getElementById("flame");
  if (!svg) return;
  var side = +svg.dataset.side, charWidth = +svg.dataset.char, total = +svg.dataset.total;
  var width = svg.viewBox.baseVal.width - 2 * side;
  var byId = function (id) { return document.getElementById(id); };
  var details = byId("details"), reset = byId("reset"), search = byId("search");
  var pattern = "", zoomed = null;

  // One entry per frame: its element and its place in value units.
  var frames = Array.prototype.map.call(document.querySelectorAll("g.f"), function (g) {
    var title = g.querySelector("title").textContent, cut = title.lastIndexOf("\n");
    var frame = {
      g: g, rect: g.querySelector("rect"), text: g.querySelector("text"),
      start: +g.dataset.s, value: +g.dataset.v, depth: +g.dataset.d,
      name: title.slice(0, cut), amount: title.slice(cut + 1)
    };
    g.addEventListener("mouseover", function () { show(frame); });
    g.addEventListener("mouseout", function () { details.textContent = " "; });
    g.addEventListener("click", function () { zoom(frame); });
    return frame;
  });

  function show(frame) {
    details.textContent = frame.name + " (" + frame.amount + ")";
  }

  function label(frame, x, w) {
    var room = Math.floor((w - 6) / charWidth), name = frame.name;
    var shown = name.length <= room ? name : room < 3 ? "" : name.slice(0, room - 2) + "..";
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
  function zoom(target) {
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
    remember();
  }

  // Frames too small to draw, in preorder below the drawn frame `at`: its name's number, depth below it, value.
  var small = { names: [], at: [], below: [] }, left = byId("small");
  if (left) small = JSON.parse(left.textContent);

  // The value that matches stand for, drawn or not; a match inside a match counts once.
  function share(hits, test) {
    hits.sort(function (a, b) { return a.start - b.start || b.value - a.value; });
    var sum = 0, covered = 0, ends = [];
    hits.forEach(function (f) {
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

  // Marks matching frames and tells their share; a match inside a match counts once.
  function find(text) {
    var test = null;
    pattern = text || "";
    if (pattern) {
      try { test = new RegExp(pattern, "i"); } catch (error) {
        test = { test: function (name) { return name.indexOf(pattern) >= 0; } };
      }
    }
    var hits = frames.filter(function (f) {
      var hit = !!test && f.depth > 0 && test.test(f.name);
      f.g.classList.toggle("hit", hit);
      return hit;
    });
    var sum = test ? share(hits, test) : 0;
    search.textContent = test
      ? pattern + ": " + (small.more ? "\u2265 " : "") + (100 * sum / total).toFixed(2) + " % \u2014 clear search" : "search";
    remember();
  }

  function ask() {
    var text = window.prompt("Find frames (regular expression):", pattern);
    if (text !== null) find(text);
  }

  // The state lives in the address, so that a link shows the same view.
  function remember() {
    var parts = [];
    if (pattern) parts.push("find=" + encodeURIComponent(pattern));
    if (zoomed) parts.push("zoom=" + frames.indexOf(zoomed));
    try { window.history.replaceState(null, "", "#" + parts.join("&")); } catch (error) { /* opened as a file */ }
  }

  function recall() {
    var state = {};
    window.location.hash.slice(1).split("&").forEach(function (part) {
      var at = part.indexOf("=");
      if (at > 0) state[part.slice(0, at)] = decodeURIComponent(part.slice(at + 1));
    });
    if (state.zoom && frames[+state.zoom]) zoom(frames[+state.zoom]);
    find(state.find || "");
  }

  reset.addEventListener("click", function () { zoom(null); });
  search.addEventListener("click", function () { if (pattern) find(""); else ask(); });
  window.addEventListener("keydown", function (event) {
    if (event.key === "/" || (event.key === "f" && (event.ctrlKey || event.metaKey))) {
      event.preventDefault();
      ask();
    } else if (event.key === "Escape") {
      if (zoomed) zoom(null); else find("");
    }
  });
  recall();
  // A flame graph grows upwards: begin at its foot, where the roots are.
  if (svg.dataset.up && !window.location.hash) window.scrollTo(0, document.documentElement.scrollHeight);
})();
