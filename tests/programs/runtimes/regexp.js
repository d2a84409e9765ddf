// Matches a regular expression that tries many ways, for so many seconds.
const end = Date.now() + 1000 * (+process.argv[2] || 1);
function slow(text) { return /^(a+)+$/.test(text); }
while (Date.now() < end) slow("a".repeat(18) + "!");
