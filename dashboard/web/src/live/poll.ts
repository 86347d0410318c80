// Rows that are no topic of the live connection: routes that the page polls.
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, call } from "../api";

const kEvery = 3000;  // In ms.

// Polls a route while the page is visible; null: nothing is polled. Another `every_ms` counts from the next poll. `again` polls at once, for example after a change.
export function use_answer<T>(path: string | null, every_ms = kEvery): { answer: T | null; error: unknown; again: () => void } {
  const [state, set_state] = useState<{ answer: T | null; error: unknown }>({ answer: null, error: null });
  const load_now = useRef(() => {});
  const pause = useRef(every_ms);
  pause.current = every_ms;
  useEffect(() => {
    if (path === null) return undefined;
    let gone = false;
    const load = () => {
      if (document.visibilityState === "hidden") return;
      call<T>("GET", path).then((answer) => { if (!gone) set_state({ answer, error: null }); }, (error: unknown) => { if (!gone) set_state((before) => (error instanceof ApiError && error.status === 0 ? before : { answer: null, error })); });
    };
    load_now.current = load;
    set_state({ answer: null, error: null });
    load();
    let timer = 0;
    const wait = () => { timer = window.setTimeout(() => { load(); wait(); }, pause.current); };
    wait();
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [path]);
  return { ...state, again: () => load_now.current() };
}
