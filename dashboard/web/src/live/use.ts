// The tab's connection, and how components look at its topics.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Collection } from "./collection";
import { Connection, type Part } from "./connection";
import type { Filter, Topic, Topics } from "./protocol";

export const connection = new Connection({
  open: () => new WebSocket(location.origin.replace(/^http/, "ws") + "/ws") as unknown as ReturnType<Connection["around"]["open"]>,
  now: () => performance.timeOrigin + performance.now(),  // Does not jump when the clock is set.
  after: (ms, run) => {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
  random: Math.random,
});

const hidden = () => document.visibilityState === "hidden";
document.addEventListener("visibilitychange", () => connection.set_hidden(hidden()));

// A tab that was opened behind another one waits until it is looked at.
export function start_connection(): void {
  connection.start();
  connection.set_hidden(hidden());
}

// The head's clock, in ms: ages are right on machines whose clocks are not.
export const head_now = () => connection.around.now() + connection.clock_offset;

const kNone = new Collection<never>("replace");

// Redraws with the rows, at most once in `every` ms: 10,000 rows need not be sorted 50 times a second.
// `every` and the trials of `part` may change from drawing to drawing; the subscription stays.
export function use_topic<K extends Topic>(topic: K | null, filter: Filter = {}, every = 60, part?: Part): Collection<Topics[K]> {
  const key = JSON.stringify(filter) + (part?.as ?? "");
  const [, redraw] = useState(0);
  const pace = useRef(every);
  pace.current = every;
  const collection = useMemo(
    () => (topic ? connection.peek(topic, filter, part) : (kNone as unknown as Collection<Topics[K]>)),
    [topic, key],
  );
  // Held and released by one effect, with one list of what it depends on: a subscription that is shown is never let go.
  useLayoutEffect(() => {
    if (!topic) return undefined;
    connection.hold(topic, filter, part);
    return () => connection.release(topic, filter, part);
  }, [topic, key]);
  useLayoutEffect(() => {
    if (topic && part) connection.want(topic, filter, part);
  }, [topic, key, part?.trials.join()]);
  useEffect(() => {
    if (!topic) return undefined;
    let timer: ReturnType<typeof setTimeout> | null = null;
    let last = 0;
    const draw = () => {
      timer = null;
      last = performance.now();
      redraw((n) => n + 1);
    };
    const stop = collection.version.subscribe(() => {
      if (timer === null) timer = setTimeout(draw, Math.max(0, last + pace.current - performance.now()));
    });
    return () => {
      stop();
      if (timer !== null) clearTimeout(timer);
    };
  }, [collection]);
  return collection;
}

// Draws again every `ms`, for ages.
export function use_tick(ms: number): void {
  const [, redraw] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => redraw((n) => n + 1), ms);
    return () => clearInterval(timer);
  }, [ms]);
}

// The last value, kept while `frozen` holds: a person who points at a row wants it to stay.
export function use_frozen<T>(value: T, frozen: boolean): T {
  const kept = useRef(value);
  if (!frozen) kept.current = value;
  return kept.current;
}
