// The work of a program of node.js with its run-time: programs, threads, promises over a pipe, servers, files. It says what came out, a line each.
const { spawn, execFile } = require("child_process");
const { Worker, isMainThread, parentPort, workerData } = require("worker_threads");
const http = require("http"), fs = require("fs"), net = require("net");
if (!isMainThread) {
    let sum = 0;
    for (let i = 0; i < workerData; i++) sum += i;
    parentPort.on("message", shared => {
        Atomics.add(new Int32Array(shared), 0, sum);
        Atomics.notify(new Int32Array(shared), 0);
        parentPort.close();
    });
    return;
}
const end = child => new Promise(done => child.on("close", (code, signal) => done([code, signal])));
const parts = {
    // One program that is written to and read from, ten at once, one that fails, one that is killed.
    async children() {
        const child = spawn("tr", ["a-z", "A-Z"]);
        let text = "";
        child.stdout.on("data", data => text += data);
        child.stdin.end("written");
        await end(child);
        const many = await Promise.all([...Array(10).keys()].map(i => new Promise(done => execFile("echo", [i], (error, out) => done(+out)))));
        const failed = await end(spawn("sh", ["-c", "exit 7"]));
        const slow = spawn("sleep", ["1000"]);
        slow.kill();
        return `${text} ${many.reduce((a, b) => a + b)} ${failed[0]} ${(await end(slow))[1]}`;
    },
    // Four threads add to one word of memory.
    async workers() {
        const shared = new SharedArrayBuffer(4);
        await Promise.all([1, 2, 3, 4].map(() => new Promise((done, failed) => {
            const worker = new Worker(__filename, { workerData: 1000 });
            worker.on("error", failed).on("exit", done).postMessage(shared);
        })));
        return new Int32Array(shared)[0];
    },
    // Each number goes through another program, and resolves its promise when it comes back.
    async promises() {
        const cat = spawn("cat"), waiting = new Map();
        let rest = "";
        cat.stdout.on("data", data => {
            const lines = (rest + data).split("\n");
            rest = lines.pop();
            for (const line of lines) { waiting.get(line)(+line); waiting.delete(line); }
        });
        const all = [...Array(10000).keys()].map(i => new Promise(done => { waiting.set(String(i), done); cat.stdin.write(i + "\n"); }));
        const sum = (await Promise.all(all)).reduce((a, b) => a + b);
        cat.stdin.end();
        return `${sum} ${(await end(cat))[0]}`;
    },
    // A server and twenty clients by a port, and one by a path.
    async pages() {
        const server = http.createServer((question, answer) => answer.end("page of " + question.url));
        const ask = options => new Promise((done, failed) => http.get(options, answer => {
            let text = "";
            answer.on("data", data => text += data).on("end", () => done(text));
        }).on("error", failed));
        await new Promise(done => server.listen(0, "127.0.0.1", done));
        const port = server.address().port;
        const texts = await Promise.all([...Array(20).keys()].map(i => ask({ port, host: "127.0.0.1", path: "/" + i, agent: false })));
        await new Promise(done => server.close(done));
        await new Promise(done => server.listen("/tmp/node.socket", done));
        texts.push(await ask({ socketPath: "/tmp/node.socket", path: "/path", agent: false }));
        await new Promise(done => server.close(done));
        return `${new Set(texts).size} ${texts[20]} ${fs.existsSync("/tmp/node.socket")}`;
    },
    // Files by the threads of the pool, a watch, timers and a signal.
    async files() {
        await Promise.all([...Array(50).keys()].map(i => fs.promises.writeFile(`/tmp/node-${i}`, String(i))));
        const read = await Promise.all([...Array(50).keys()].map(i => fs.promises.readFile(`/tmp/node-${i}`, "utf8")));
        const seen = new Promise(done => { const watch = fs.watch("/tmp/node-0", kind => { watch.close(); done(kind); }); });
        fs.appendFileSync("/tmp/node-0", "more");
        const signal = new Promise(done => process.once("SIGUSR2", done));
        process.kill(process.pid, "SIGUSR2");
        await new Promise(done => setTimeout(done, 5));
        return `${read.reduce((a, b) => a + +b, 0)} ${await seen} ${await signal}`;
    },
};
(async () => { for (const name in parts) console.log(name + ": " + await parts[name]()); })();
