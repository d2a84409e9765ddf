// A tally report: one flame graph on a canvas, one table, per event. No dependencies.
(function () {
  "use strict";
  var data = JSON.parse(document.getElementById("data").textContent);
  var COLOURS = {
    task: "#d2d5dc", program: "#f0a18c", library: "#f0d375", kernel: "#c7ace8", jit: "#96d696",
    inlined: "#94d6cc", waiting: "#94bede", unknown: "#cdccc9"
  };
  var ROW = 18, event = null, zoomed = 0, pattern = "", order = "own", cells = [];

  function element(tag, attributes, parent, text) {
    var node = document.createElement(tag);
    for (var name in attributes) node.setAttribute(name, attributes[name]);
    if (text !== undefined) node.textContent = text;
    (parent || document.body).appendChild(node);
    return node;
  }

  var header = element("header");
  element("h1", {}, header, data.title);
  var events = element("select", {}, header);
  data.events.forEach(function (e, i) { element("option", { value: i }, events, e.event); });
  var search = element("input", { type: "search", placeholder: "search (regular expression)" }, header);
  var reset = element("button", {}, header, "show all");
  var found = element("span", { "class": "dim" }, header);
  var canvas = element("canvas", { id: "flame" });
  var details = element("div", { id: "details" }, document.body, " ");
  var table = element("table");

  function prepare(e) {
    if (e.total) return;
    var count = e.own.length, i, functions = {};
    e.total = e.own.slice();
    e.hits = e.samples.slice();
    e.children = [];
    for (i = 0; i < count; i++) e.children.push([]);
    for (i = count - 1; i > 0; i--) {
      e.total[e.parent[i]] += e.total[i];
      e.hits[e.parent[i]] += e.hits[i];
    }
    for (i = 1; i < count; i++) e.children[e.parent[i]].push(i);
    var byName = function (a, b) { return e.names[e.name[a]][0] < e.names[e.name[b]][0] ? -1 : 1; };
    e.children.forEach(function (list) { list.sort(byName); });
    // Own and total time by function; under recursion the outermost call counts.
    for (i = 1; i < count; i++) {
      var name = e.name[i], f = functions[name], at = e.parent[i];
      if (!f) f = functions[name] = { name: name, own: 0, total: 0 };
      f.own += e.own[i];
      while (at && e.name[at] !== name) at = e.parent[at];
      if (!at) f.total += e.total[i];
    }
    e.functions = Object.keys(functions).map(function (key) { return functions[key]; })
      .filter(function (f) { return e.names[f.name][1] !== "task"; });
  }

  function percent(value) { return (100 * value / Math.max(1, event.total[0])).toFixed(2) + " %"; }

  function amount(value) {
    if (event.unit !== "ns") return value.toLocaleString("en");
    return value >= 1e9 ? (value / 1e9).toFixed(3) + " s" : (value / 1e6).toFixed(3) + " ms";
  }

  function matcher() {
    if (!pattern) return null;
    try { return new RegExp(pattern, "i"); } catch (error) {
      return { test: function (name) { return name.indexOf(pattern) >= 0; } };
    }
  }

  // Share of the whole tree, whatever is drawn of it. A match inside a match counts once; callers come first.
  function share(test) {
    var covered = [false], sum = 0, i;
    for (i = 1; i < event.own.length; i++) {
      var below = covered[event.parent[i]], hit = !below && test.test(event.names[event.name[i]][0]);
      covered.push(below || hit);
      if (hit) sum += event.total[i];
    }
    return sum;
  }

  function layout(width) {
    cells = [];
    var callers = [], at = zoomed, depth = 0;
    for (; at; at = event.parent[at]) callers.unshift(at);
    callers.unshift(0);
    callers.slice(0, -1).forEach(function (node) { cells.push({ node: node, x: 0, w: width, y: depth++, pale: true }); });
    var scale = width / Math.max(1, event.total[zoomed]), open = [[zoomed, 0, depth]], deepest = depth;
    while (open.length) {
      var next = open.pop(), node = next[0], x = next[1], w = event.total[node] * scale;
      if (w < 0.3) continue;
      cells.push({ node: node, x: x, w: w, y: next[2] });
      deepest = Math.max(deepest, next[2]);
      event.children[node].forEach(function (child) {
        open.push([child, x, next[2] + 1]);
        x += event.total[child] * scale;
      });
    }
    return (deepest + 1) * ROW;
  }

  function draw() {
    var width = canvas.clientWidth, ratio = window.devicePixelRatio || 1;
    var height = layout(width), test = matcher();
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.height = height + "px";
    var pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = "12px ui-monospace, monospace";
    pen.textBaseline = "middle";
    var letter = pen.measureText("m").width;
    cells.forEach(function (cell) {
      var name = event.names[event.name[cell.node]], hit = test && test.test(name[0]);
      pen.globalAlpha = cell.pale ? 0.5 : 1;
      pen.fillStyle = hit ? "#e33df0" : COLOURS[name[1]];
      pen.fillRect(cell.x, cell.y * ROW, Math.max(cell.w - 0.6, 0.3), ROW - 1);
      var room = Math.floor((cell.w - 6) / letter);
      if (room >= 3) {
        pen.fillStyle = "#1a1a1a";
        pen.fillText(name[0].length <= room ? name[0] : name[0].slice(0, room - 1) + "\u2026", cell.x + 3, cell.y * ROW + ROW / 2);
      }
    });
    found.textContent = test ? percent(share(test)) + " of all found" : "";
  }

  function fill() {
    var test = matcher();
    table.textContent = "";
    var head = element("tr", {}, table);
    [["own", "self"], ["total", "with callees"]].forEach(function (column) {
      var cell = element("th", { "class": "number" }, head, column[1] + (order === column[0] ? " \u25be" : ""));
      cell.onclick = function () { order = column[0]; fill(); };
    });
    element("th", {}, head, "function");
    var list = event.functions.slice().sort(function (a, b) { return b[order] - a[order]; });
    if (test) list = list.filter(function (f) { return test.test(event.names[f.name][0]); });
    list.slice(0, 200).forEach(function (f) {
      var row = element("tr", {}, table), name = event.names[f.name];
      element("td", { "class": "number", title: amount(f.own) }, row, percent(f.own));
      element("td", { "class": "number", title: amount(f.total) }, row, percent(f.total));
      var cell = element("td", {}, row, name[0] + " ");
      element("span", { "class": "dim" }, cell, name[1]);
    });
  }

  function show(index) {
    event = data.events[index];
    zoomed = 0;
    if (!event) return;
    prepare(event);
    draw();
    fill();
  }

  function cellAt(mouse) {
    var y = Math.floor(mouse.offsetY / ROW);
    return cells.filter(function (c) { return c.y === y && mouse.offsetX >= c.x && mouse.offsetX < c.x + c.w; })[0];
  }

  canvas.onmousemove = function (mouse) {
    var cell = cellAt(mouse);
    details.textContent = !cell ? " " : event.names[event.name[cell.node]][0] + " \u2014 " + percent(event.total[cell.node]) +
      ", " + amount(event.total[cell.node]) + ", " + event.hits[cell.node].toLocaleString("en") + " samples";
  };
  canvas.onclick = function (mouse) {
    var cell = cellAt(mouse);
    if (cell) { zoomed = cell.node; draw(); }
  };
  search.oninput = function () { pattern = search.value; draw(); fill(); };
  reset.onclick = function () { zoomed = 0; pattern = search.value = ""; draw(); fill(); };
  events.onchange = function () { show(+events.value); };
  window.onresize = draw;
  show(0);
})();
