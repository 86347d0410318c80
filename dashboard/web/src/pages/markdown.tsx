// A note in Markdown. Loaded when a note is shown.
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Token } from "marked";
import { elements_of } from "./markdown_elements";
import "./markdown.css";

const kParseWithin = 5000;  // In ms, with the start of the worker.
const parsed = new Map<string, Token[] | null>();  // By text: a note is asked for at every visit. null: it stays plain text.
const kKept = 50;

// Parses a text in a worker, which is ended when it takes too long.
function parse(text: string, done: (tokens: Token[] | null) => void): () => void {
  const worker = new Worker(new URL("./markdown_worker.ts", import.meta.url), { type: "module" });
  const end = (tokens: Token[] | null) => {
    stop();
    if (parsed.size >= kKept) parsed.clear();
    parsed.set(text, tokens);
    done(tokens);
  };
  const timer = setTimeout(() => end(null), kParseWithin);
  const stop = () => {
    clearTimeout(timer);
    worker.terminate();
  };
  worker.onmessage = ({ data }: MessageEvent<Token[] | null>) => end(data);
  worker.onerror = () => end(null);
  worker.postMessage(text);
  return stop;
}

// Plain text until the note is parsed, and if it cannot be.
export function Markdown({ text }: { text: string }) {
  const [, set_done] = useState(0);
  const tokens = parsed.get(text);
  useEffect(() => (parsed.has(text) ? undefined : parse(text, () => set_done((n) => n + 1))), [text]);
  const elements = useMemo(() => tokens && elements_of(tokens), [tokens]);
  return elements ? <div class="note-text markdown">{elements}</div> : <p class="note-text" tabIndex={0}>{text}</p>;
}
