// The whole logs of the simulated head: a million lines, each generated from its number when it is read.
export const log_line = (n) => (n % 1000 === 0 ? `error: batch ${n} was lost, asked for it again` : `step ${n} loss ${(1 / Math.sqrt(n)).toFixed(5)} rate ${(120 + (n * 7) % 13).toFixed(1)}/s`);
const numbered = (n) => ({ line: n, text: log_line(n), ...(trouble(log_line(n)) ? { level: "error" } : {}) });
const kSearched = 65_536;  // Lines that one request searches.
const trouble = (text) => text.startsWith("error");

export function answer_lines(world, url) {
  const log = world.whole_log, get = (name, usual) => Number(url.searchParams.get(name) ?? usual);
  if (url.searchParams.get("id") === "gone") return { error: "node heron: actor 00000000 has printed nothing on this node" };
  world.lines_asked = (world.lines_asked ?? 0) + 1;
  const err = url.searchParams.get("stream") === "err";
  const first = err ? 1 : log.first, last = err ? 2 : log.last;
  const find = url.searchParams.get("find")?.toLowerCase() ?? "", bad = get("trouble", 0) === 1, back = get("backward", 0) === 1, most = get("lines", 200);
  const lines = [];
  let next = 0;
  if (!find && !bad) {
    for (let n = Math.max(first, get("from", last - most + 1)); n <= last && lines.length < most; n++) lines.push(numbered(n));
  } else {
    const from = get("from", back ? last : first), step = back ? -1 : 1;
    let n = Math.min(last, Math.max(first, from)), seen = 0;
    for (; n >= first && n <= last && seen < kSearched && lines.length < most; n += step, seen++) {
      const text = log_line(n);
      if ((!find || text.toLowerCase().includes(find)) && (!bad || trouble(text))) lines[back ? "unshift" : "push"](numbered(n));
    }
    if (n >= first && n <= last) next = n;
  }
  return { value: { node: url.searchParams.get("node") || "heron", first, last, next, run: 1, lines, runs: url.searchParams.get("id") ? [{ run: 1, out_bytes: 52_428_800, err_bytes: 83 }] : [] } };
}
