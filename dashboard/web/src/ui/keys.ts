// Global keyboard shortcuts: Ctrl-K, /, ?, and g followed by a page's letter.
import { go } from "../router";

export const kPages: Record<string, string> = {
  o: "overview", e: "experiments", r: "projects", m: "models", s: "studies", n: "nodes", a: "actors", k: "tasks", q: "queue", j: "jobs", w: "job_queue", h: "job_usage", p: "groups", b: "objects", l: "logs", v: "events", d: "drivers", t: "tokens", u: "audit",
};

const typing = (target: EventTarget | null) => target instanceof Element && target.closest("input,textarea,select,[contenteditable]") !== null;

export function listen(open_palette: () => void, open_help: () => void): () => void {
  let after_g = 0;
  const on_key = (event: KeyboardEvent) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      return open_palette();
    }
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (typing(event.target)) {
      if (event.key === "Escape") (event.target as HTMLElement).blur();
      return;
    }
    if (event.key === "/") {
      const box = document.querySelector<HTMLInputElement>("[data-filter]");
      if (!box) return;
      event.preventDefault();
      box.focus();
      box.select();
    } else if (event.key === "?") {
      open_help();
    } else if (event.key === "g") {
      after_g = event.timeStamp;
    } else if (after_g && event.timeStamp - after_g < 1500 && kPages[event.key]) {
      after_g = 0;
      go(kPages[event.key] === "overview" ? [] : [kPages[event.key]]);
    }
  };
  addEventListener("keydown", on_key);
  return () => removeEventListener("keydown", on_key);
}
