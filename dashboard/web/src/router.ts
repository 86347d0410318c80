// The current address: `#/experiments/digits?tab=curves&q=status:running`. It contains all state that a link should share.
import { computed, signal } from "@preact/signals";
import { build, parse } from "./route";

const here = () => location.hash.slice(1) || "/";
const hash = signal(here());
addEventListener("hashchange", () => (hash.value = here()));

export const route = computed(() => parse(hash.value));
export const link = (path: string[], query: Record<string, string> = {}) => "#" + build({ path, query });
export const go = (path: string[], query: Record<string, string> = {}) => {
  location.hash = build({ path, query });
};

// Replaces the history entry, so that "back" leads to the previous page and not to the previous letter of a filter.
export function set_query(changes: Record<string, string | null>): void {
  const { path, query } = route.value;
  const next: Record<string, string> = { ...query };
  for (const [key, value] of Object.entries(changes)) {
    if (value === null || value === "") delete next[key];
    else next[key] = value;
  }
  history.replaceState(history.state, "", "#" + build({ path, query: next }));
  hash.value = here();
}
export const query = (key: string, fallback = "") => route.value.query[key] ?? fallback;
