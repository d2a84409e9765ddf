function burn(s) { const e = process.cpuUsage().user / 1e6 + s; let x = 0; while (process.cpuUsage().user / 1e6 < e) for (let i = 0; i < 20000; i++) x += i * x % 7; return x; }
function alpha(s) { const r = burn(s); return r + 1; }
function beta(s) { const r = burn(s); return r + 1; }
function gamma(s) { const r = burn(s); return r + 1; }
const rounds = +process.argv[2] || 1, part = rounds > 1 ? .02 : 1;
for (let i = 0; i < rounds; i++) { alpha(.5 * part); beta(.3 * part); gamma(.2 * part); }
setTimeout(() => {}, 300);
