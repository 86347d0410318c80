// The tab's connection, and the hooks with which components read its topics.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Collection } from "./collection";
import { Connection, type Part } from "./connection";
import type { Filter, Topic, Topics } from "./protocol";

export const connection = new Connection({
  open: () => new WebSocket(location.origin.replace(/^http/, "ws") + "/ws") as unknown as ReturnType<Connection["around"]["open"]>,
  now: () => performance.timeOrigin + performance.now(),  // Not affected by changes of the system clock.
  after: (ms, run) => {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
  random: Math.random,
});

const hidden = () => document.visibilityState === "hidden";
document.addEventListener("visibilitychange", () => connection.set_hidden(hidden()));

// A tab opened in the background connects when it becomes visible.
export function start_connection(): void {
  connection.start();
  connection.set_hidden(hidden());
}

// The head's clock in ms; keeps ages correct if the local clock is wrong.
export const head_now = () => connection.around.now() + connection.clock_offset;

const kNone = new Collection<never>("replace");

// Redraws when the rows change, at most once in `every` ms: sorting 10,000 rows 50 times a second would be too slow.
// `every` and the trials of `part` may change between calls; the subscription stays.
export function use_topic<K extends Topic>(topic: K | null, filter: Filter = {}, every = 60, part?: Part): Collection<Topics[K]> {
  const key = JSON.stringify(filter) + (part?.as ?? "");
  const [, redraw] = useState(0);
  const pace = useRef(every);
  pace.current = every;
  const collection = useMemo(
    () => (topic ? connection.peek(topic, filter, part) : (kNone as unknown as Collection<Topics[K]>)),
    [topic, key],
  );
  // One effect holds and releases, with the same dependencies, so that a visible subscription is never released.
  useLayoutEffect(() => {
    if (!topic) return undefined;
    connection.hold(topic, filter, part);
    return () => connection.release(topic, filter, part);
  }, [topic, key]);
  useLayoutEffect(() => {
    if (topic && part) connection.want(topic, filter, part);
  }, [topic, key, part?.trials.join()]);
  useEffect(() => (topic ? when_changed([collection], pace, () => redraw((n) => n + 1)) : undefined), [collection]);
  return collection;
}

// As use_topic for several filters of one topic, with one redraw for the changes of all. `drawn` changes with each of these redraws, but not
// with others: values derived from the rows may be kept until then.
export function use_topics<K extends Topic>(topic: K, filters: Filter[], every: number, part?: Part): { all: Collection<Topics[K]>[]; drawn: string } {
  const key = JSON.stringify(filters) + (part?.as ?? "");
  const [redraws, redraw] = useState(0);
  const pace = useRef(every);
  pace.current = every;
  const all = useMemo(() => filters.map((filter) => connection.peek(topic, filter, part)), [topic, key]);
  useLayoutEffect(() => {
    for (const filter of filters) connection.hold(topic, filter, part);
    return () => { for (const filter of filters) connection.release(topic, filter, part); };
  }, [topic, key]);
  useLayoutEffect(() => {
    if (part) for (const filter of filters) connection.want(topic, filter, part);
  }, [topic, key, part?.trials.join()]);
  useEffect(() => when_changed(all, pace, () => redraw((n) => n + 1)), [all]);
  return { all, drawn: `${redraws} ${key}` };
}

// Calls `draw` after changes of the collections, at most once in `pace` ms. Returns a function that ends this.
function when_changed(collections: Pick<Collection<never>, "version">[], pace: { current: number }, draw: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | null = null;
  let last = 0;
  const run = () => {
    timer = null;
    last = performance.now();
    draw();
  };
  const stops = collections.map((one) => one.version.subscribe(() => {
    if (timer === null) timer = setTimeout(run, Math.max(0, last + pace.current - performance.now()));
  }));
  return () => {
    for (const stop of stops) stop();
    if (timer !== null) clearTimeout(timer);
  };
}

// Redraws every `ms`, to update ages.
export function use_tick(ms: number): void {
  const [, redraw] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => redraw((n) => n + 1), ms);
    return () => clearInterval(timer);
  }, [ms]);
}

// Returns the latest value, or the one from before `frozen` was set: rows must not move under the pointer.
export function use_frozen<T>(value: T, frozen: boolean): T {
  const kept = useRef(value);
  if (!frozen) kept.current = value;
  return kept.current;
}
