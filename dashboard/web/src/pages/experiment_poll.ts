// All experiments of configurations that the head lists, archived ones too, with some of their members.
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, call } from "../api";

export const kMost = 10_000;  // The head lists the newest ones up to here.
const kEvery = 6000;  // In ms, at least; the next request waits 20 times as long as the last one took, so that long lists leave the page free.

interface Polled<T> { answer: { rows: T[] } | null; error: unknown }

export function use_experiments<T>(fields: string): Polled<T> & { again: () => void } {
  const [state, set_state] = useState<Polled<T>>({ answer: null, error: null });
  const now = useRef(() => {});
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>;
    let turn = 0;
    const load = async () => {
      clearTimeout(timer);
      const own = ++turn;
      const began = performance.now();
      let next: Polled<T> | null = null;
      if (document.visibilityState !== "hidden") {
        next = await call<{ rows: T[] }>("GET", `/api/v1/determined/experiments?page_size=${kMost}&fields=${fields}`).then((answer) => ({ answer, error: null }), (error: unknown) => ({ answer: null, error }));
      }
      if (own !== turn) return;
      const away = next?.error instanceof ApiError && next.error.status === 0;
      if (next && !away) set_state(next);
      timer = setTimeout(() => void load(), Math.max(kEvery, 20 * (performance.now() - began)));
    };
    now.current = () => void load();
    void load();
    return () => {
      ++turn;
      clearTimeout(timer);
    };
  }, []);
  return { ...state, again: () => now.current() };
}
