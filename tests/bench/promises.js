// Ten thousand promises, each resolved when its number has come back from another program; fails unless all have.
const cat = require("child_process").spawn("cat"), waiting = new Map();
let rest = "";
cat.stdout.on("data", data => {
    const lines = (rest + data).split("\n");
    rest = lines.pop();
    for (const line of lines) { waiting.get(line)(+line); waiting.delete(line); }
});
const all = [...Array(10000).keys()].map(i => new Promise(done => { waiting.set(String(i), done); cat.stdin.write(i + "\n"); }));
Promise.all(all).then(numbers => {
    cat.stdin.end();
    process.exitCode = numbers.reduce((a, b) => a + b) === 49995000 ? 0 : 1;
});
