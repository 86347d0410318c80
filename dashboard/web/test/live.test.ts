import assert from "node:assert/strict";
import { test } from "node:test";
import { Collection, kLinesMax } from "../src/live/collection";
import { Connection, type Socket } from "../src/live/connection";
import type { LogLine, Node, Points } from "../src/live/protocol";

const node = (id: string, actors = 0) => ({ id, actors }) as Node;

test("a snapshot replaces, deltas change whole rows and delete", () => {
  const rows = new Collection<Node>("replace");
  rows.on_snapshot(5, [node("a"), node("b")]);
  rows.on_delta(6, [node("b", 2), node("c")], ["a"]);
  assert.deepEqual(rows.list(), [node("b", 2), node("c")]);
  rows.on_snapshot(9, [node("z")]);
  assert.deepEqual(rows.list(), [node("z")]);
});

test("deltas that the snapshot holds already change nothing", () => {
  const rows = new Collection<Node>("replace");
  rows.on_delta(3, [node("early")], []);
  rows.on_snapshot(5, [node("a", 1)]);
  rows.on_delta(4, [], ["a"]);
  assert.deepEqual(rows.list(), [node("a", 1)]);
});

test("a delta of the snapshot's own number counts: a row of an earlier part may have changed", () => {
  const rows = new Collection<Node>("replace");
  rows.on_snapshot(4, [node("a", 1)], true);
  rows.on_snapshot(5, [node("b")]);
  rows.on_delta(5, [node("a", 2)], []);
  assert.deepEqual(rows.list(), [node("a", 2), node("b")]);
});

test("lines without ids are kept each", () => {
  const rows = new Collection<LogLine>("lines");
  const line = (text: string) => ({ text }) as LogLine;
  rows.on_snapshot(1, [line("x"), line("x"), line("y")]);
  assert.deepEqual(rows.list().map((one) => one.text), ["x", "x", "y"]);
});

test("points append, also for lines that are new", () => {
  const rows = new Collection<Points>("points");
  rows.on_snapshot(1, [{ id: "t", x: [1], y: [0.5] }]);
  rows.on_delta(2, [{ id: "t", x: [2, 3], y: [0.6, 0.7] }, { id: "u", x: [1], y: [0.1] }], []);
  assert.deepEqual(rows.get("t"), { id: "t", x: [1, 2, 3], y: [0.5, 0.6, 0.7] });
  assert.deepEqual(rows.get("u"), { id: "u", x: [1], y: [0.1] });
});

test("a snapshot in parts shows nothing half", () => {
  const rows = new Collection<Node>("replace");
  rows.on_snapshot(1, [node("old")]);
  rows.restart();
  rows.on_snapshot(4, [node("a")], true);
  assert.deepEqual(rows.list(), [node("old")]);
  rows.on_snapshot(4, [node("b")]);
  assert.deepEqual(rows.list(), [node("a"), node("b")]);
});

test("old lines go, and are counted", () => {
  const rows = new Collection<LogLine>("lines");
  rows.on_snapshot(1, Array.from({ length: kLinesMax + 5 }, (_, i) => ({ id: String(i), source: "", node: "", stderr: false, text: "" })));
  assert.equal(rows.size, kLinesMax);
  assert.equal(rows.dropped, 5);
  assert.equal(rows.list()[0].id, "5");
});

// A fake head with its own clock: records what the page sends, delivers messages, runs timers.
class Wires {
  sockets: { sent: Record<string, unknown>[]; socket: Socket; closed: boolean }[] = [];
  timers: { at: number; run: () => void; live: boolean }[] = [];
  time = 1000;
  connection = new Connection({
    open: () => {
      const entry = { sent: [] as Record<string, unknown>[], closed: false, socket: null as unknown as Socket };
      entry.socket = { send: (text: string) => void entry.sent.push(JSON.parse(text)), close: () => { entry.closed = true; }, onopen: null, onmessage: null, onclose: null };
      this.sockets.push(entry);
      return entry.socket;
    },
    now: () => this.time,
    after: (ms, run) => {
      const timer = { at: this.time + ms, run, live: true };
      this.timers.push(timer);
      return () => { timer.live = false; };
    },
    random: () => 0.5,
  });
  get last() { return this.sockets[this.sockets.length - 1]; }
  tell(message: object) { this.last.socket.onmessage?.({ data: JSON.stringify(message) }); }
  hello(instance = "one") { this.tell({ type: "hello", proto: 1, seq: 0, server_time_ms: this.time, version: "1", instance }); }
  cut() { this.last.socket.onclose?.(); }
  pass(ms: number) {
    const until = this.time + ms;
    for (;;) {
      const next = this.timers.filter((timer) => timer.live && timer.at <= until).sort((a, b) => a.at - b.at)[0];
      if (!next) break;
      this.time = Math.max(this.time, next.at);
      next.live = false;
      next.run();
    }
    this.time = until;
  }
}

test("topics are subscribed once the head has greeted, and once however many look", () => {
  const wires = new Wires();
  wires.connection.start();
  wires.connection.hold("nodes");
  wires.connection.hold("nodes");
  assert.deepEqual(wires.last.sent, []);
  wires.hello();
  wires.connection.hold("trials", { experiment: "digits" });
  assert.deepEqual(wires.last.sent, [{ op: "sub", id: 1, topic: "nodes" }, { op: "sub", id: 2, topic: "trials", filter: { experiment: "digits" } }]);
});

test("a topic is left some seconds after the last one looked away", () => {
  const wires = new Wires();
  wires.connection.start();
  wires.hello();
  wires.connection.hold("nodes");
  wires.connection.release("nodes");
  wires.pass(1000);
  assert.equal(wires.last.sent.length, 1);
  wires.connection.hold("nodes");
  wires.pass(10_000);
  assert.equal(wires.last.sent.length, 1);
  wires.connection.release("nodes");
  wires.pass(10_000);
  assert.deepEqual(wires.last.sent[1], { op: "unsub", id: 1 });
});

test("a lost connection is tried again, later each time, and subscribes anew", () => {
  const wires = new Wires();
  wires.connection.start();
  wires.hello();
  const rows = wires.connection.hold("nodes");
  wires.tell({ type: "snap", id: 1, seq: 50, rows: [node("a"), node("b")] });
  wires.cut();
  assert.equal(wires.connection.link.value, "waiting");
  assert.equal(rows.size, 2);
  wires.pass(600);
  assert.equal(wires.sockets.length, 2);
  wires.cut();
  wires.pass(600);
  assert.equal(wires.sockets.length, 2);
  wires.pass(600);
  assert.equal(wires.sockets.length, 3);
  wires.hello("two");
  assert.deepEqual(wires.last.sent, [{ op: "sub", id: 1, topic: "nodes" }]);
  wires.tell({ type: "snap", id: 1, seq: 1, rows: [node("b")] });
  assert.deepEqual(rows.list(), [node("b")]);
  assert.equal(wires.connection.restarted.value, 1);
});

test("the same head met again is not a restart", () => {
  const wires = new Wires();
  wires.connection.start();
  wires.hello();
  wires.cut();
  wires.pass(1000);
  wires.hello();
  assert.equal(wires.connection.restarted.value, 0);
});

test("a hidden tab holds no socket and tries none; a shown one comes back", () => {
  const wires = new Wires();
  wires.connection.start();
  wires.hello();
  wires.connection.hold("nodes");
  wires.connection.set_hidden(true);
  assert.ok(wires.last.closed);
  wires.pass(600_000);
  assert.equal(wires.sockets.length, 1);
  wires.connection.set_hidden(false);
  assert.equal(wires.sockets.length, 2);
  wires.hello();
  assert.equal(wires.last.sent.length, 1);
});

test("silence is asked about, then given up", () => {
  const wires = new Wires();
  wires.connection.start();
  wires.hello();
  wires.pass(40_000);
  assert.ok(wires.last.sent.some((message) => message.op === "ping"));
  wires.pass(40_000);
  assert.ok(wires.sockets.length > 1);
});

test("within the first minute the head is tried every two seconds, later less often", () => {
  const wires = new Wires();
  wires.connection.start();
  wires.hello();
  wires.cut();
  while (wires.time < 60_000) {
    const before = wires.time;
    const tried = wires.sockets.length;
    wires.pass(2_001);
    assert.equal(wires.sockets.length, tried + 1, `tried again within 2 s of ${before}`);
    wires.cut();
  }
  wires.pass(60_000);
  wires.cut();
  const tried = wires.sockets.length;
  wires.pass(2_001);
  assert.equal(wires.sockets.length, tried, "after a minute it waits longer");
});

test("the age grows while the head does not say that the page has everything, also while other messages come", () => {
  const wires = new Wires();
  wires.connection.start();
  wires.hello();
  wires.connection.hold("nodes");
  wires.tell({ type: "snap", id: 1, seq: 1, rows: [] });
  assert.equal(wires.connection.age(), 0);
  for (let i = 0; i < 10; i++) {
    wires.pass(1000);
    wires.tell({ type: "delta", id: 1, seq: 2 + i, upserts: [node("a", i)], deletes: [] });
  }
  assert.equal(wires.connection.age(), 10_000);
  wires.tell({ type: "current", seq: 20, server_time_ms: wires.time });
  assert.equal(wires.connection.age(), 0);
});

test("a message that was long on its way makes the page older, not the head's clock slower", () => {
  const wires = new Wires();
  wires.connection.start();
  wires.hello();
  wires.pass(9000);
  wires.tell({ type: "current", seq: 1, server_time_ms: wires.time - 7000 });
  assert.equal(wires.connection.age(), 7000);
});

test("the trials of a part change by one message, come again with a new connection, and do not touch other parts", () => {
  const wires = new Wires();
  wires.connection.start();
  wires.hello();
  const filter = { experiment: "digits", metric: "loss" };
  wires.connection.hold("curves", filter, { as: "shown", trials: ["a", "b"] });
  wires.connection.hold("curves", filter, { as: "trial a", trials: ["a"] });
  wires.connection.want("curves", filter, { as: "shown", trials: ["a", "b"] });
  assert.equal(wires.last.sent.length, 2);
  wires.connection.want("curves", filter, { as: "shown", trials: ["b", "c"] });
  assert.deepEqual(wires.last.sent[2], { op: "want", id: 1, trials: ["b", "c"] });
  wires.cut();
  wires.pass(2000);
  wires.hello();
  assert.deepEqual(wires.last.sent, [
    { op: "sub", id: 1, topic: "curves", filter, trials: ["b", "c"] }, { op: "sub", id: 2, topic: "curves", filter, trials: ["a"] }]);
});

test("a topic that was only peeked at is left again", () => {
  const wires = new Wires();
  wires.connection.start();
  wires.hello();
  wires.connection.peek("nodes");
  wires.pass(10_000);
  assert.deepEqual(wires.last.sent, [{ op: "sub", id: 1, topic: "nodes" }, { op: "unsub", id: 1 }]);
});

test("a refused topic says why", () => {
  const wires = new Wires();
  wires.connection.start();
  wires.hello();
  const rows = wires.connection.hold("trials", { experiment: "none" });
  wires.tell({ type: "error", id: 1, code: "kNotFound", detail: "no experiment none" });
  assert.equal(rows.phase.value, "error");
  assert.equal(rows.error.detail, "no experiment none");
});
