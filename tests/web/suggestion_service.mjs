// A suggestion service with Katib's gRPC interface, for tests: each trial gets the same values.
import { createServer } from "node:http2";

// Fields of protocol buffers whose numbers are below 16.
function varint(number) {
  const out = [];
  for (; number > 127; number = Math.floor(number / 128)) out.push((number % 128) + 128);
  return Buffer.from([...out, number]);
}
const field = (number, value) => Buffer.concat([Buffer.from([number * 8 + 2]), varint(Buffer.byteLength(value)), Buffer.from(value)]);

// The whole number of this field; 0: absent.
function number_of(message, wanted) {
  let at = 0;
  const next = () => {
    let [value, scale] = [0, 1];
    for (;; scale *= 128) {
      const byte = message[at++];
      value += (byte % 128) * scale;
      if (byte < 128) return value;
    }
  };
  while (at < message.length) {
    const key = next();
    const value = next();
    if (key === wanted * 8) return value;
    if (key % 8 === 2) at += value;
  }
  return 0;
}

// Listens on a free port of 127.0.0.1. `values`: names and values of a trial. `refused(experiment)`: why an experiment is refused; empty: it is taken. `asked`: the requests, as text.
export async function start_suggestions(values, refused = () => "") {
  const asked = [];
  const suggestions = (count) => Buffer.concat(Array.from({ length: count }, () => field(1, Buffer.concat(Object.entries(values).map(([name, value]) => field(1, Buffer.concat([field(1, name), field(2, value)])))))));
  const server = createServer();
  const sessions = new Set();
  server.on("session", (session) => {
    sessions.add(session);
    session.on("error", () => {});
    session.on("close", () => sessions.delete(session));
  });
  server.on("stream", (stream, headers) => {
    const parts = [];
    stream.on("error", () => {});
    stream.on("data", (part) => parts.push(part));
    stream.on("end", () => {
      const fail = (status, message) => stream.respond({ "content-type": "application/grpc", "grpc-status": String(status), "grpc-message": encodeURIComponent(message) }, { endStream: true });
      const message = Buffer.concat(parts).subarray(5);  // After the flag of compression and the length.
      const method = headers[":path"].split("/").at(-1);
      if (!["GetSuggestions", "ValidateAlgorithmSettings"].includes(method)) return fail(12, "not implemented");
      asked.push(message.toString("latin1"));
      const why = refused(message.toString("latin1"));
      if (why) return fail(3, why);
      const reply = method === "GetSuggestions" ? suggestions(number_of(message, 4)) : Buffer.alloc(0);
      const length = Buffer.alloc(5);
      length.writeUInt32BE(reply.length, 1);
      stream.respond({ "content-type": "application/grpc" }, { waitForTrailers: true });
      stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
      stream.end(Buffer.concat([length, reply]));
    });
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return {
    address: `127.0.0.1:${server.address().port}`, asked,
    close() {
      for (const one of sessions) one.destroy();
      server.close();
    },
  };
}
